package whatif

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
)

// price sums up what nodes of pools cost before and after.
func (s *simulation) price(ctx context.Context, offers Offers) {
	if of := offers.PricesOf(); of != offers.Region() {
		s.out.Cost.PricesOf = of
	}
	cost, today, then := &s.out.Cost, newPrices(s.before), newPrices(s.after)
	for i := range s.capture.NodeClaims {
		claim := &s.capture.NodeClaims[i]
		before, known := today.of(ctx, claim)
		if !known {
			cost.Unpriced++
			continue
		}
		if claim.Labels[karpv1.CapacityTypeLabelKey] == karpv1.CapacityTypeSpot {
			cost.Spot++
		}
		cost.Before += before
		if s.commit.Touched[claim.UID] || claim.DeletionTimestamp != nil {
			continue
		}
		after := before
		if priced, known := then.of(ctx, claim); known {
			after = priced
		}
		cost.Lowest, cost.Highest = cost.Lowest+after, cost.Highest+after
	}
	for _, n := range s.out.New {
		cost.Lowest += float64(n.Count) * n.Lowest
		cost.Highest += float64(n.Count) * n.Highest
	}
}

// prices are those of instance types in each pool, as overlays differ from pool to pool.
type prices struct {
	world *world
	types map[string]map[string]*cloudprovider.InstanceType
}

func newPrices(w *world) *prices {
	return &prices{world: w, types: map[string]map[string]*cloudprovider.InstanceType{}}
}

// of is what the node of a NodeClaim costs an hour, and whether that is known.
func (p *prices) of(ctx context.Context, claim *karpv1.NodeClaim) (float64, bool) {
	pool := claim.Labels[karpv1.NodePoolLabelKey]
	if p.types[pool] == nil {
		p.types[pool] = map[string]*cloudprovider.InstanceType{}
		found := &karpv1.NodePool{}
		if p.world.client.Get(ctx, client.ObjectKey{Name: pool}, found) == nil {
			offered, err := p.world.cloud.GetInstanceTypes(ctx, found)
			if err != nil {
				offered = nil // its nodes have no price, which Unpriced counts
			}
			for _, t := range offered {
				p.types[pool][t.Name] = t
			}
		}
	}
	t := p.types[pool][claim.Labels[corev1.LabelInstanceTypeStable]]
	if t == nil {
		return 0, false
	}
	price, known := t.OfferingPrice(claim.Labels[corev1.LabelTopologyZone], claim.Labels[karpv1.CapacityTypeLabelKey])
	return price, known && price > 0
}

// note says what is not counted.
func (s *simulation) note() {
	s.out.Notes = append(s.out.Notes, s.after.bare.failures()...)
	if s.capture.Settings.CapacityBuffer {
		s.out.Notes = append(s.out.Notes, "CapacityBuffers are not counted")
	}
	for _, unread := range s.capture.Unread {
		s.out.Notes = append(s.out.Notes, "not counted: "+unread)
	}
	if overlays := s.overlays(); overlays > 0 && !s.capture.Settings.NodeOverlay {
		s.out.Notes = append(s.out.Notes, fmt.Sprintf("%d NodeOverlays do nothing: the feature gate NodeOverlay is closed", overlays))
	}
}

func (s *simulation) overlays() (n int) {
	for _, definition := range s.commit.Definitions {
		if definition["kind"] == "NodeOverlay" {
			n++
		}
	}
	return n
}

func sorted(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }

func named(key client.ObjectKey) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
}
