package reconcile

import (
	"slices"
	"strings"
	"testing"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/status"
	"github.com/plumbline-dev/plumbline/render"
)

// holds returns a reconcile in which changes of these pools are held.
func holds(pools ...string) found {
	return func(p *pass) {
		p.Held = []status.Held{}
		for _, pool := range pools {
			p.Held = append(p.Held, status.Held{
				Ref:     render.Ref{Kind: render.NodePool, Name: pool},
				Message: "4 nodes would be disrupted, but guard.maxDisruptedNodes allows 3: set it to 4",
			})
		}
	}
}

// TestEachHoldHasAnEvent shows that one event says what is held and what releases it.
func TestEachHoldHasAnEvent(t *testing.T) {
	for name, c := range map[string]struct {
		found found
		want  string
	}{
		"of changes":   {holds("a", "b"), "Warning Held held: change of NodePool/a, NodePool/b: 4 nodes would be disrupted, but guard.maxDisruptedNodes allows 3: set it to 4"},
		"of a removal": {poolsLeaving(1, v1alpha1.RemovalHeld, 3, "guard.maxRemovedPools is 0: set it to 1"), "Warning Held held: removal of NodePool/general-purpose-0: guard.maxRemovedPools is 0: set it to 1"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nodeSync(unchanged))
			for _, want := range [][]string{{c.want}, nil} {
				b.concluded(b.pass(), func(p *pass) { p.sync.Status.Removals = nil }, c.found)
				var got []string
				for _, event := range b.told() {
					if strings.HasPrefix(event, "Warning Held") {
						got = append(got, event)
					}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestAnApprovalIsNoNewHold shows that the reconcile that records an approval, and was planned without it, names in its
// condition and its commit status who has approved, and that no event warns of the hold again.
func TestAnApprovalIsNoNewHold(t *testing.T) {
	b := newBed(t, reporting(unchanged))
	approvable := func(p *pass) {
		p.sync.Status.Held = &v1alpha1.HeldPlan{Digest: "sha256:1", Needed: 1, Summary: "replaces 4 of 4 nodes in 1 pool"}
	}
	approved := func(p *pass) {
		p.sync.Status.Held = nil
		p.sync.Status.Approved = []v1alpha1.ApprovedPlan{{Digest: "sha256:1", By: []string{"ann"}}}
	}
	status := func(want string) {
		t.Helper()
		if diff := cmp.Diff([]string{"gitea https://git.example.com/acme/fleet.git plumbline/prod-eu/prod " + want}, b.queued()); diff != "" {
			t.Errorf("commit statuses (-want +got):\n%s", diff)
		}
	}
	b.reports(b.read(), holds("a"), approvable)
	status("failure: held: replaces 4 of 4 nodes in 1 pool; approve sha256:1 (change of NodePool/a)")
	b.told()
	p := b.reports(b.read(), holds("a"), approved)
	status("pending: approved by ann: replaces 4 of 4 nodes in 1 pool")
	for _, event := range b.told() {
		if strings.HasPrefix(event, "Warning") {
			t.Errorf("event %q", event)
		}
	}
	ready := conditions.Get(p.sync, meta.ReadyCondition)
	if ready == nil || ready.Status != metav1.ConditionUnknown || ready.Message != "approved by ann: replaces 4 of 4 nodes in 1 pool" {
		t.Errorf("Ready is %+v", ready)
	}
	b.concluded(b.pass(), holds("b"))
	if told := b.told(); !slices.ContainsFunc(told, func(event string) bool { return strings.HasPrefix(event, "Warning Held") }) {
		t.Errorf("what is held beside it has no event: %q", told)
	}
}

// TestHeldChangesAreCounted shows that held changes are counted, even after a reconcile that has planned nothing.
func TestHeldChangesAreCounted(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	registry := metered(b)
	for _, c := range []struct {
		name  string
		found found
		want  float64
	}{
		{"nothing was planned yet", func(*pass) {}, 0},
		{"two are held", holds("a", "b"), 2},
		{"Git cannot be read", stopped(t, errUnreachable), 2},
		{"one is released", holds("b"), 1},
		{"its nodes are to go", func(p *pass) { p.sync.Spec.Drain = true }, 0},
		{"one is held again", holds("b"), 1},
		{"it is deleted", func(p *pass) { now := metav1.NewTime(p.now); p.sync.DeletionTimestamp = &now }, 0},
		{"nothing is held", holds(), 0},
	} {
		p := b.pass()
		c.found(p)
		if _, err := p.conclude(t.Context()); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(map[string]float64{"{name=prod,namespace=plumbline-system}": c.want}, of(series(t, registry), "plumbline_held_changes")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}
