package brake

import (
	"context"
	"fmt"
	"slices"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// EC2 is what is asked why an instance has ended.
type EC2 interface {
	Instances(ctx context.Context, query cloud.Query) ([]cloud.Instance, error)
}

// explain adds EC2's words on the instance of the last launch that failed to a stop that begins.
// Where it has none, or does not answer, only those of Karpenter stand there.
func (s *Step) explain(ctx context.Context, e *v1alpha1.PoolRollout) {
	if e.Reason != v1alpha1.BrakeFailedLaunches || s.EC2 == nil || s.Sync.Status.Karpenter == nil {
		return
	}
	launches, _ := s.Launches.Joins(e.Pool)
	for _, launch := range slices.Backward(launches) {
		if launch.Failed == "" || launch.ProviderID == "" {
			continue
		}
		ec2, err := s.EC2(ctx, s.Sync.Status.Karpenter.Region)
		if err != nil {
			return
		}
		instances, err := ec2.Instances(ctx, cloud.Query{ProviderIDs: []string{launch.ProviderID}})
		if err == nil && len(instances) == 1 && instances[0].Reason != "" {
			e.Message += fmt.Sprintf(" (EC2: %s)", instances[0].Reason)
		}
		return
	}
}
