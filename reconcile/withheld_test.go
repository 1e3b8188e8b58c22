package reconcile

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/evaluate"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/removal"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

// TestDoubtOutlivesTheRevision shows that what another NodeSync may have stays in doubt: it is not yet a candidate for
// removal when the revision counts as applied, and becomes one when that NodeSync's entries are known.
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
				p.plan = evaluate.Planned{Plan: &left, Doubt: p.policyStep().Doubt()}
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

// TestARestoredStatusEndsNoDoubt shows this for a status that was restored from before the last commits, with no doubt
// or with a removal that was reverted since. The record of what was applied has a newer revision than the one that HEAD
// was reset to.
func TestARestoredStatusEndsNoDoubt(t *testing.T) {
	pool := render.Ref{Kind: render.NodePool, Name: "newest"}
	newest := "main@sha1:" + strings.Repeat("ab", 20)
	begun := v1alpha1.Removal{Kind: pool.Kind, Name: pool.Name, UID: "1", Revision: "main@sha1:" + commit, Phase: v1alpha1.RemovalDraining}
	for name, c := range map[string]struct {
		order    source.Order
		removals []v1alpha1.Removal
		want     string
	}{
		"HEAD is older":                    {source.OrderOlder, nil, v1alpha1.ReasonOlderRevision},
		"a removal that was taken back":    {source.OrderOlder, []v1alpha1.Removal{begun}, v1alpha1.ReasonOlderRevision},
		"nobody knows whether it is older": {source.OrderUnknown, []v1alpha1.Removal{begun}, v1alpha1.ReasonHistoryUnknown},
		"HEAD is newer":                    {source.OrderNewer, nil, ""},
		"a removal that goes on":           {source.OrderNewer, []v1alpha1.Removal{begun}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			live, stays := appliedPool(pool.Name), appliedPool("stays")
			live.SetUID("1")
			b := newBed(t, nodeSync(func(n *v1alpha1.NodeSync) {
				n.Status.LastAppliedRevision, n.Status.Removals = "main@sha1:"+commit, c.removals
				n.Spec.Guard.AllowLastPool = true
			}), live)
			b.recordApplied(apply.Record{Objects: map[render.Ref]types.UID{pool: "1"}, Pools: map[string]bool{pool.Name: true}, Revision: newest})
			b.source.orders = map[string]source.Order{render.CommitOf(newest): c.order}
			for range 2 {
				p := b.pass()
				p.snapshot = &render.Snapshot{Revision: "main@sha1:" + commit, Commit: commit}
				p.stages.CRDs.Ready, p.stages.Controller.Ready = true, true
				p.want.Set = setWith("stays")
				p.want.Set.Revision, p.want.Set.Objects[0].Desired, p.want.Set.Objects[0].Defaulted = p.snapshot.Revision, stays, stays
				p.live = plan.Live{Served: true, Removals: p.sync.Status.Removals, Objects: map[render.Ref]*plan.Object{pool: plan.NewObject(live)}}
				p.takes(t.Context(), p.seeVanished, p.makePlan, p.applyPlan, p.removes((*removal.Step).RecordApplied))
				if goesOn := c.want == "" && c.removals != nil; p.Fault != nil || len(p.plan.Removals) == 0 != goesOn {
					t.Fatalf("removals %+v, kept %+v, fault %v, status %+v", p.plan.Removals, p.plan.Kept, p.Fault, p.sync.Status.Removals)
				}
				for _, got := range p.plan.Removals {
					if got.Held != (c.want != "") || got.Reason != c.want {
						t.Errorf("held %t, for %q: %s", got.Held, got.Reason, got.Message)
					}
				}
				p.takes(t.Context(), p.removes((*removal.Step).Run))
				if _, err := p.conclude(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if got := b.begin(b.read()).memory.removal.AppliedRevision(); c.want != "" && got != newest {
				t.Errorf("the record has %s", got)
			}
			if told := strings.Contains(strings.Join(b.told(), "\n"), "StatusOlder"); told != (c.want != "") {
				t.Errorf("told of a status that is older: %t", told)
			}
		})
	}
}

// TestTheRevisionIsRecorded shows that the record contains the newest revision of which anything was written.
func TestTheRevisionIsRecorded(t *testing.T) {
	for name, c := range map[string]struct {
		doubt *v1alpha1.Withheld
		part  string
		want  string
	}{
		"applied":         {want: "main@sha1:" + applied},
		"a part of one":   {part: "main@sha1:" + commit, want: "main@sha1:" + commit},
		"an older one":    {doubt: &v1alpha1.Withheld{Reason: v1alpha1.ReasonOlderRevision}, want: "main@sha1:before"},
		"the unknown one": {doubt: &v1alpha1.Withheld{Reason: v1alpha1.ReasonHistoryUnknown}, want: "main@sha1:" + applied},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nodeSync(func(n *v1alpha1.NodeSync) {
				n.Status.LastAppliedRevision, n.Status.PartlyAppliedRevision = "main@sha1:"+applied, c.part
			}))
			b.recordApplied(apply.Record{Revision: "main@sha1:before"})
			p := b.pass()
			p.want.Set = setWith("stays")
			p.plan = evaluate.Planned{Plan: &plan.Plan{}, Doubt: c.doubt}
			p.live.Served = true
			p.takes(t.Context(), p.seeVanished, p.removes((*removal.Step).RecordApplied))
			store, err := apply.LoadRecord(t.Context(), b.client, b.read())
			if err != nil || store.Record.Revision != c.want {
				t.Errorf("the record has %s, want %s; %v, %v", store.Record.Revision, c.want, err, p.Fault)
			}
		})
	}
}
