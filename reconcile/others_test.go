package reconcile

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/removal"
	"github.com/plumbline-dev/plumbline/reconcile/status"
	"github.com/plumbline-dev/plumbline/render"
)

func setWith(names ...string) *render.Set {
	set := &render.Set{}
	for _, name := range names {
		set.Objects = append(set.Objects, render.Object{Ref: render.Ref{Kind: render.NodePool, Name: name}})
	}
	return set
}

// TestWhatAnotherMayHaveIsNotRecorded shows that such a removal waits, and is neither held nor started.
func TestWhatAnotherMayHaveIsNotRecorded(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	p := b.pass()
	p.stages.CRDs.Ready = true
	p.want.Set = setWith("stays")
	p.plan.Plan = &plan.Plan{Kept: []plan.Kept{{Ref: render.Ref{Kind: render.NodePool, Name: "moves"}, UID: "1", By: "plumbline-system/gpu", Message: "it may be theirs"}}}
	if err := p.removesServed((*removal.Step).Run)(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v := p.verdict(); v.Class != status.Working || v.Message != "waiting for NodeSync/plumbline-system/gpu: it may be theirs" {
		t.Errorf("verdict %+v", v)
	}
	if len(p.sync.Status.Removals) > 0 {
		t.Errorf("recorded: %v", p.sync.Status.Removals)
	}
	p.sync.Status.Removals = []v1alpha1.Removal{{Kind: render.NodePool, Name: "moves", UID: "1", Phase: v1alpha1.RemovalPacing}}
	before := slices.Clone(p.sync.Status.Removals)
	if err := p.removesServed((*removal.Step).Run)(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, p.sync.Status.Removals); diff != "" {
		t.Errorf("a recorded one goes on (-want +got):\n%s", diff)
	}
}
