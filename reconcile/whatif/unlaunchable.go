package whatif

import (
	"context"
	"fmt"
	"maps"
	"slices"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpscheduling "sigs.k8s.io/karpenter/pkg/scheduling"
)

// unlaunchable names the NodePools for which Karpenter finds no instance type among those that EC2 offers, and those of which that
// is unknown: the instance types of the class are, or it takes reserved instances only, of which EC2 was not asked.
func (s *simulation) unlaunchable(ctx context.Context, region string) {
	s.out.Region = region
	for _, name := range slices.Sorted(maps.Keys(s.after.recorder.unmet)) {
		pool := s.after.recorder.unmet[name]
		_, err := s.after.cloud.GetInstanceTypes(ctx, pool)
		switch {
		case err != nil:
			s.unknown(region, name, fmt.Sprintf("EC2NodeClass/%s: %v", pool.Spec.Template.Spec.NodeClassRef.Name, err))
		case reservedOnly(pool):
			s.unknown(region, name, "it takes reserved instances only, and capacity reservations are not simulated")
		default:
			s.out.Unlaunchable = append(s.out.Unlaunchable, name)
		}
	}
}

func (s *simulation) unknown(region, pool, why string) {
	s.out.Notes = append(s.out.Notes, fmt.Sprintf("unknown whether an instance type of %s meets NodePool/%s: %s", region, pool, why))
}

// reservedOnly reports whether a NodePool takes neither on-demand nor spot instances.
func reservedOnly(pool *karpv1.NodePool) bool {
	takes := karpscheduling.NewNodeSelectorRequirementsWithMinValues(pool.Spec.Template.Spec.Requirements...).Get(karpv1.CapacityTypeLabelKey)
	return takes.Has(karpv1.CapacityTypeReserved) && !takes.Has(karpv1.CapacityTypeOnDemand) && !takes.Has(karpv1.CapacityTypeSpot)
}
