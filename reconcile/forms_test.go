package reconcile

import (
	"maps"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestFormsThatStand: a definition is noted once it stands in the cluster, and stays
// so while somebody else changes that.
func TestFormsThatStand(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	p := b.pass()
	p.want.Set = setWith("clean", "written", "failed", "edited", "held")
	for i := range p.want.Set.Objects {
		p.want.Set.Objects[i].Defaulted = &unstructured.Unstructured{}
	}
	at := func(name string) *unstructured.Unstructured {
		return p.want.Set.Objects[slices.IndexFunc(p.want.Set.Objects, func(o render.Object) bool { return o.Ref.Name == name })].Defaulted
	}
	ref := func(name string) render.Ref { return render.Ref{Kind: render.NodePool, Name: name} }
	before := &unstructured.Unstructured{}
	p.memory.forms.of = map[render.Ref]*unstructured.Unstructured{ref("held"): before, ref("gone"): before}
	p.plan.Plan = &plan.Plan{Changes: []plan.Change{
		{Ref: ref("written"), Action: plan.Update},
		{Ref: ref("failed"), Action: plan.Create},
		{Ref: ref("edited"), Action: plan.Drifted, Drift: true},
		{Ref: ref("held"), Action: plan.Hold},
	}}
	p.applied.Written = []apply.Written{{Ref: ref("written")}}
	p.noteForms()
	want := map[render.Ref]*unstructured.Unstructured{
		ref("clean"): at("clean"), ref("written"): at("written"), ref("edited"): at("edited"), ref("held"): before,
	}
	if !maps.Equal(want, p.memory.forms.of) {
		t.Errorf("forms are %v, want %v", p.memory.forms.of, want)
	}
	p.plan.Plan = &plan.Plan{Changes: []plan.Change{{Ref: ref("clean"), Action: plan.Update}, {Ref: ref("failed"), Action: plan.Create}}}
	p.applied.Written = nil
	p.noteForms()
	want[ref("held")] = at("held")
	if !maps.Equal(want, p.memory.forms.of) {
		t.Errorf("after a second pass over the Set forms are %v, want %v", p.memory.forms.of, want)
	}
}
