package reconcile

import (
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/policy"
	"github.com/plumbline-dev/plumbline/reconcile/removal"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

// TestDoubtOutlivesTheRevision: what another NodeSync may have is no candidate yet when the
// revision counts as applied, and is when that one is known. It is in doubt still.
func TestDoubtOutlivesTheRevision(t *testing.T) {
	pool := render.Ref{Kind: render.NodePool, Name: "newest"}
	for reason, orders := range map[string]map[string]source.Order{
		v1alpha1.ReasonStatusLost:     nil,
		v1alpha1.ReasonOlderRevision:  {applied: source.OrderOlder},
		v1alpha1.ReasonHistoryUnknown: {},
	} {
		t.Run(reason, func(t *testing.T) {
			live := appliedPool(pool.Name)
			live.SetUID("1")
			b := newBed(t, nodeSync(func(n *v1alpha1.NodeSync) {
				if reason != v1alpha1.ReasonStatusLost {
					n.Status.LastAppliedRevision = "main@sha1:" + applied
				}
			}), live)
			b.source.orders = orders
			look := func(left plan.Plan) *pass {
				p := b.pass()
				p.sync, p.before = b.read(), b.read()
				p.snapshot = &render.Snapshot{Revision: "main@sha1:" + commit, Commit: commit}
				p.stages.CRDs.Ready, p.stages.Controller.Ready = true, true
				p.want.Set = setWith("stays")
				p.plan = policy.Planned{Plan: &left, Doubt: p.policyStep().Doubt()}
				if p.plan.Doubt == nil || p.plan.Doubt.Reason != reason {
					t.Fatalf("in doubt: %+v", p.plan.Doubt)
				}
				if err := p.applyPlan(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := p.removesServed((*removal.Step).Run)(t.Context()); err != nil {
					t.Fatal(err)
				}
				if _, err := p.conclude(t.Context()); err != nil {
					t.Fatal(err)
				}
				return p
			}
			for range 2 {
				look(plan.Plan{Kept: []plan.Kept{{Ref: pool, UID: "1"}}})
				if got := b.read().Status.LastAppliedRevision; got != "main@sha1:"+commit {
					t.Fatalf("applied %s", got)
				}
			}
			look(plan.Plan{Removals: []plan.Candidate{{Ref: pool, UID: "1", Revision: "main@sha1:" + commit, Held: true, Reason: reason}}})
			status := b.read().Status
			if len(status.Removals) != 1 || status.Removals[0].Phase != v1alpha1.RemovalHeld || status.Removals[0].Reason != reason {
				t.Errorf("removals %+v", status.Removals)
			}
			if kept := status.Withheld != nil; kept != (reason != v1alpha1.ReasonStatusLost) {
				t.Errorf("all is recorded, and withheld is %+v", status.Withheld)
			}
		})
	}
}
