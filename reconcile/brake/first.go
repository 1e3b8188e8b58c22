package brake

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/render"
)

// terminateFirst is the feature gate with which Karpenter ends a node before its replacement is
// launched, where that has no place else: in a static pool at its limit, and where the reservation of
// the node is full (sigs.k8s.io/karpenter pkg/controllers/disruption/staticdrift.go and helpers.go,
// 1.15.0).
const terminateFirst = "TerminateFirstDrift"

// endsFirst says in words which nodes of a pool end before their replacements are launched; empty
// where none does. A brake comes too late for one of them: it is lost by then.
func (s *Step) endsFirst(ctx context.Context, pool string) (words string) {
	which := s.withoutPlace(pool)
	if which == "" || s.Gate == nil {
		return ""
	}
	on, err := s.Gate(ctx, terminateFirst)
	switch {
	case err != nil:
		return fmt.Sprintf("; whether Karpenter ends %s before its replacement is launched is not known: %v", which, err)
	case on:
		return fmt.Sprintf("; with Karpenter's feature gate %s %s ends before its replacement is launched, and one that has ended is not given back", terminateFirst, which)
	}
	return ""
}

// withoutPlace are the nodes of a pool beside which there may be no place for a replacement.
func (s *Step) withoutPlace(pool string) string {
	if live := s.Live.Objects[render.Ref{Kind: render.NodePool, Name: pool}]; live != nil {
		if _, static, _ := unstructured.NestedFieldNoCopy(live.Object, "spec", "replicas"); static {
			return "a node of a static pool at its limit"
		}
	}
	for i := range s.Live.NodeClaims {
		c := &s.Live.NodeClaims[i]
		if c.Pool == pool && c.Labels.Map()[karpv1.CapacityTypeLabelKey] == karpv1.CapacityTypeReserved {
			return "a node of a full capacity reservation"
		}
	}
	return ""
}
