package changes

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
	set := &render.Set{}
	for _, name := range []string{"clean", "written", "failed", "edited", "held"} {
		set.Objects = append(set.Objects, render.Object{Ref: render.Ref{Kind: render.NodePool, Name: name}, Defaulted: &unstructured.Unstructured{}})
	}
	s := &Step{Set: set, Memory: &Memory{}}
	at := func(name string) *unstructured.Unstructured {
		return set.Objects[slices.IndexFunc(set.Objects, func(o render.Object) bool { return o.Ref.Name == name })].Defaulted
	}
	ref := func(name string) render.Ref { return render.Ref{Kind: render.NodePool, Name: name} }
	before := &unstructured.Unstructured{}
	s.Memory.forms.of = map[render.Ref]*unstructured.Unstructured{ref("held"): before, ref("gone"): before}
	s.Plan = &plan.Plan{Changes: []plan.Change{
		{Ref: ref("written"), Action: plan.Update},
		{Ref: ref("failed"), Action: plan.Create},
		{Ref: ref("edited"), Action: plan.Drifted, Drift: true},
		{Ref: ref("held"), Action: plan.Hold},
	}}
	s.applied.Written = []apply.Written{{Ref: ref("written")}}
	s.noteForms()
	want := map[render.Ref]*unstructured.Unstructured{
		ref("clean"): at("clean"), ref("written"): at("written"), ref("edited"): at("edited"), ref("held"): before,
	}
	if !maps.Equal(want, s.Memory.forms.of) {
		t.Errorf("forms are %v, want %v", s.Memory.forms.of, want)
	}
	s.Plan = &plan.Plan{Changes: []plan.Change{{Ref: ref("clean"), Action: plan.Update}, {Ref: ref("failed"), Action: plan.Create}}}
	s.applied.Written = nil
	s.noteForms()
	want[ref("held")] = at("held")
	if !maps.Equal(want, s.Memory.forms.of) {
		t.Errorf("after a second pass over the Set forms are %v, want %v", s.Memory.forms.of, want)
	}
}
