package teardown

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/blocker"
)

// TestDriveNamesWhatEndsFirst: nodes in reserved capacity, where Karpenter replaces the pool's nodes and its
// feature gate is on, while the removal goes on and when it stalls. The gate is asked for only where it matters.
func TestDriveNamesWhatEndsFirst(t *testing.T) {
	for name, c := range map[string]struct {
		capacity string
		on       bool
		replaces bool
		names    bool
		asked    bool
	}{
		"reserved":             {capacity: karpv1.CapacityTypeReserved, on: true, replaces: true, names: true, asked: true},
		"the gate is off":      {capacity: karpv1.CapacityTypeReserved, replaces: true, asked: true},
		"on demand":            {capacity: karpv1.CapacityTypeOnDemand, on: true, replaces: true},
		"without replacements": {capacity: karpv1.CapacityTypeReserved, on: true},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := replaced(t, nil, "a", "b")
			s.pace.Replaces = c.replaces
			asked := false
			s.endsFirst = func() bool {
				asked = true
				return c.on
			}
			s.claim("b", func(claim *karpv1.NodeClaim) { claim.Labels[karpv1.CapacityTypeLabelKey] = c.capacity })
			s.replica("web-1", "web", "node-a")
			s.replica("web-2", "web", "node-b")
			const words = "reserved capacity: Karpenter ends node node-b before its replacement is there"
			says := func(when string) {
				t.Helper()
				if r := s.sync.Status.Removals[0]; strings.Contains(r.Message, words) != c.names {
					t.Errorf("%s: %s", when, r.Message)
				}
			}
			s.pass()
			s.pass()
			s.pass()
			says("it goes on")
			s.now = s.now.Add(time.Hour)
			s.pass()
			if r := s.sync.Status.Removals[0]; r.Stalled == nil {
				t.Fatalf("%+v", r)
			}
			says("it is stalled")
			if asked != c.asked {
				t.Errorf("the gate is asked for: %t", asked)
			}
		})
	}
}

// TestWhatEndsFirstOfAPoolThatStays is nothing: of a static pool, or one that is deleted, Karpenter replaces none.
func TestWhatEndsFirstOfAPoolThatStays(t *testing.T) {
	o := Observation{Exists: true, EndsFirst: true, Turn: Turn{Replaces: true}, NodeClaims: []Claim{{Name: "a", Reserved: true}, {Name: "b", Reserved: true, Deleting: time.Unix(1, 0)}}}
	if got := o.first(); !strings.Contains(got, "node a before") {
		t.Errorf("%q", got)
	}
	static := o
	static.Static = true
	if got := static.first(); got != "" {
		t.Errorf("static: %q", got)
	}
	stalled := v1alpha1.Removal{Reason: ReasonNodeClaimsLeaving, Stalled: &metav1.Time{}}
	e := Evidence{Evidence: blocker.Evidence{Nodes: []blocker.Node{{Claim: "a", Stays: true}}}, Leader: Gate{Open: true}}
	o.Controller = Gate{Open: true}
	if got, _ := Diagnose(stalled, o, e); !strings.Contains(got, "waits for Karpenter to replace it; reserved capacity: Karpenter ends node a before") {
		t.Errorf("%q", got)
	}
}
