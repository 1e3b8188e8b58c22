package teardown

import (
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/blocker"
)

// TestTheGlassOfANodeThatKarpenterHasNotBegunWith: its NodeClaim is deleted first, else the annotation does nothing.
func TestTheGlassOfANodeThatKarpenterHasNotBegunWith(t *testing.T) {
	for _, kind := range []v1alpha1.BreakGlassCause{v1alpha1.CauseBudget, v1alpha1.CauseFinalizer, v1alpha1.CausePod, v1alpha1.CauseVolume} {
		for _, stays := range []bool{true, false} {
			g, ok := glass(&blocker.Node{Claim: "general-1", Stays: stays}, blocker.Cause{Kind: kind})
			begins := strings.HasPrefix(g.Command, "kubectl delete nodeclaim general-1 --wait=false && kubectl annotate nodeclaim general-1 ")
			if !ok || begins != stays {
				t.Errorf("%s, stays %t: %q", kind, stays, g.Command)
			}
		}
	}
	if g, _ := glass(&blocker.Node{Claim: "general-1", Stays: true}, blocker.Cause{Kind: v1alpha1.CauseDoNotDisrupt, Name: "web", Namespace: "shop"}); strings.Contains(g.Command, "delete") {
		t.Errorf("a pod that may not be disrupted: %q", g.Command)
	}
}
