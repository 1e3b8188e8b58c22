package brake

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// endsFirst says in words which nodes of a pool end before their replacements are launched; empty
// where none does. A brake comes too late for one of them: it is lost by then.
func (s *Step) endsFirst(ctx context.Context, pool string) (words string) {
	which := s.withoutPlace(pool)
	if which == "" || s.Gate == nil {
		return ""
	}
	on, err := s.Gate(ctx, plan.TerminateFirst)
	switch {
	case err != nil:
		return fmt.Sprintf("; whether Karpenter ends %s before its replacement is launched is not known: %v", which, err)
	case on:
		return fmt.Sprintf("; with Karpenter's feature gate %s %s ends before its replacement is launched, and one that has ended is not given back", plan.TerminateFirst, which)
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
	if len(s.Live.Reserved(pool)) > 0 {
		return "a node of a full capacity reservation"
	}
	return ""
}
