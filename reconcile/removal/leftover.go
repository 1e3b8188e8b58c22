package removal

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/dustin/go-humanize/english"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// reasonInstancesLeft is that of a removal which was found by its instances.
const reasonInstancesLeft = "InstancesLeft"

// nothingRuns asks EC2, at the end of a drain, for every instance of the cluster
// that Karpenter has launched. One of a pool of this NodeSync that lives, and whose
// pool is gone, becomes a removal of its own: it is recorded, and waited for like
// any other. It returns how the drain has ended; nothing while it has not.
func (s *Step) nothingRuns(ctx context.Context) (how string, err error) {
	store := s.Memory.applied
	if store.Exists() && len(store.Record.Pools) == 0 || !store.Exists() && s.Cluster == "" {
		return "it has applied no NodePool", nil
	}
	if s.Cluster == "" {
		s.Wait("EC2", "which cluster the NodePools were of is not known any more, so EC2 cannot be asked whether their instances have ended: set onDelete: Orphan to leave them")
		return "", nil
	}
	if gate := s.cloudGate(); !gate.Open {
		s.Wait("EC2", "whether an instance is left cannot be verified: "+gate.Message+"; set onDelete: Orphan to leave the nodes")
		return "", nil
	}
	if !finding.Due(s.Now, s.Memory.askedAt, s.AskEvery) {
		s.Wait("EC2", "EC2 is asked whether an instance is left")
		s.WakeBy(s.Memory.askedAt.Add(s.AskEvery))
		return "", nil
	}
	s.Memory.askedAt = s.Now
	ec2, err := s.EC2(ctx, s.Region)
	if err != nil {
		return "", err
	}
	found, err := ec2.Instances(ctx, cloud.Query{Cluster: s.Cluster, AllPools: true})
	left := leftover(found, s.countedPools())
	switch {
	case len(left) > 0:
		s.recordLeftover(left)
		return "", nil
	case err != nil:
		s.Wait("EC2", fmt.Sprintf("ask EC2 whether an instance is left: %s", err))
		s.WakeBy(s.Now.Add(s.AskEvery))
		return "", nil
	}
	return "EC2 has ended every instance of it", nil
}

// countedPools says of which pools an instance keeps a drain from its end: those
// that this NodeSync has applied and that nobody else has now. Where no record says
// which these are, all that no living NodePool has.
func (s *Step) countedPools() func(pool string) bool {
	recorded := s.Memory.applied.Exists()
	pools := s.Memory.applied.Record.Pools
	return func(pool string) bool {
		living := s.Live.Objects[render.Ref{Kind: render.NodePool, Name: pool}] != nil
		return !living && (pools[pool] || !recorded)
	}
}

// leftover are the instances that have not ended, by pool.
func leftover(found []cloud.Instance, counts func(pool string) bool) map[string]int {
	left := map[string]int{}
	for _, i := range found {
		if !i.Gone() && i.Pool != "" && counts(i.Pool) {
			left[i.Pool]++
		}
	}
	return left
}

// recordLeftover records a removal for each pool of which instances are left. Its
// object is gone, and with it its UID.
func (s *Step) recordLeftover(left map[string]int) {
	now := s.timestamp()
	for _, pool := range slices.Sorted(maps.Keys(left)) {
		s.Sync.Status.Removals = append(s.Sync.Status.Removals, v1alpha1.Removal{
			Kind: render.NodePool, Name: pool, UID: types.UID("instances-of-" + pool), Revision: plan.RevisionDeleted,
			RecordedAt: now, Phase: v1alpha1.RemovalPacing, Since: now, LastProgress: now,
			Remaining: int32(left[pool]), Reason: reasonInstancesLeft, Message: "its NodePool is gone, and EC2 has instances of it that run",
		})
		s.Warn(reasonInstancesLeft, fmt.Sprintf("NodePool/%s is gone, and EC2 has %s of it that did not end", pool, english.Plural(left[pool], "instance", "")))
		s.wakeNow()
	}
}
