package reconcile

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

func TestReleased(t *testing.T) {
	for name, c := range map[string]struct {
		annotation string
		want       map[types.UID]bool
	}{
		"none":        {"", map[types.UID]bool{}},
		"one":         {"u1", map[types.UID]bool{"u1": true}},
		"several":     {"u1,u2", map[types.UID]bool{"u1": true, "u2": true}},
		"with blanks": {" u1 , u2\n", map[types.UID]bool{"u1": true, "u2": true}},
		"commas only": {",,", map[types.UID]bool{}},
	} {
		t.Run(name, func(t *testing.T) {
			sync := nodeSync(func(n *v1alpha1.NodeSync) { n.Annotations = map[string]string{v1alpha1.RemoveAnnotation: c.annotation} })
			if diff := cmp.Diff(c.want, released(sync)); diff != "" {
				t.Error(diff)
			}
		})
	}
	if got := released(nodeSync(unchanged)); len(got) > 0 {
		t.Errorf("without the annotation: %v", got)
	}
}

func TestPolicyOf(t *testing.T) {
	now := metav1.Now()
	others := []v1alpha1.NodeSync{
		{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "prod"}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "gpu"}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "prod"}},
	}
	for name, c := range map[string]struct {
		applied, inputs       string
		set                   *render.Set
		deleted               *metav1.Time
		isNew, lost, deleting bool
	}{
		"first commit":                   {"", "", setAt("main@sha1:1", "a"), nil, true, true, false},
		"same commit":                    {"main@sha1:1", "", setAt("main@sha1:1", "a"), nil, false, false, false},
		"newer commit":                   {"main@sha1:1", "", setAt("main@sha1:2", "a"), nil, true, false, false},
		"newer commit of the same files": {"main@sha1:1", setAt("", "a").Inputs.Fingerprint(), setAt("main@sha1:2", "a"), nil, false, false, false},
		"newer commit of other files":    {"main@sha1:1", setAt("", "a").Inputs.Fingerprint(), setAt("main@sha1:2", "b"), nil, true, false, false},
		"same commit, another path":      {"main@sha1:1", setAt("", "a").Inputs.Fingerprint(), setAt("main@sha1:1", "b"), nil, true, false, false},
		"being deleted":                  {"main@sha1:1", "", nil, &now, true, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			sync := nodeSync(func(n *v1alpha1.NodeSync) {
				n.Spec.Adopt, n.Spec.Drift = v1alpha1.AdoptNever, v1alpha1.DriftReport
				n.Status.LastAppliedRevision, n.DeletionTimestamp = c.applied, c.deleted
				n.Status.LastAppliedInputs = c.inputs
			})
			p := PolicyOf(sync, others, c.set)
			if p.NewRevision != c.isNew || p.StatusLost != c.lost || p.Deleting != c.deleting {
				t.Errorf("new %t, lost %t, deleting %t", p.NewRevision, p.StatusLost, p.Deleting)
			}
			if p.Adopt != v1alpha1.AdoptNever || p.Drift != v1alpha1.DriftReport || *p.Guard.MaxRemovedPools != 1 {
				t.Errorf("policy %+v", p)
			}
			want := []plan.OtherSync{{Owner: plan.OwnerOf(namespace, "gpu")}, {Owner: plan.OwnerOf("elsewhere", "prod")}}
			if diff := cmp.Diff(want, p.OtherSyncs); diff != "" {
				t.Errorf("others:\n%s", diff)
			}
		})
	}
}

// setAt is a Set of a revision, made of one file.
func setAt(revision, file string) *render.Set {
	return &render.Set{Revision: revision, Inputs: render.Inputs{file: "1"}}
}

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
	p.plan = &plan.Plan{Changes: []plan.Change{
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
	p.plan = &plan.Plan{Changes: []plan.Change{{Ref: ref("clean"), Action: plan.Update}, {Ref: ref("failed"), Action: plan.Create}}}
	p.applied.Written = nil
	p.noteForms()
	want[ref("held")] = at("held")
	if !maps.Equal(want, p.memory.forms.of) {
		t.Errorf("after a second pass over the Set forms are %v, want %v", p.memory.forms.of, want)
	}
}
