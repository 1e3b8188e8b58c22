package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

func TestPolicyOf(t *testing.T) {
	now := metav1.Now()
	inputs := func(file string) string { return setAt("", file).Fingerprint() }
	others := []v1alpha1.NodeSync{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "plumbline-system", Name: "prod"}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "plumbline-system", Name: "gpu"}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "prod"}},
	}
	for name, c := range map[string]struct {
		applied, inputs, partly string
		set                     *render.Set
		deleted                 *metav1.Time
		isNew, lost, deleting   bool
	}{
		"first commit":                         {set: setAt("main@sha1:1", "a"), isNew: true, lost: true},
		"same commit":                          {applied: "main@sha1:1", inputs: inputs("a"), set: setAt("main@sha1:1", "a")},
		"inputs that are not recorded":         {applied: "main@sha1:1", set: setAt("main@sha1:1", "a"), isNew: true},
		"newer commit of the same files":       {applied: "main@sha1:1", inputs: inputs("a"), set: setAt("main@sha1:2", "a")},
		"newer commit of other files":          {applied: "main@sha1:1", inputs: inputs("a"), set: setAt("main@sha1:2", "b"), isNew: true},
		"same commit, another path":            {applied: "main@sha1:1", inputs: inputs("a"), set: setAt("main@sha1:1", "b"), isNew: true},
		"same commit, after a part of another": {applied: "main@sha1:1", inputs: inputs("a"), partly: inputs("b"), set: setAt("main@sha1:1", "a"), isNew: true},
		"commit of which a part was applied":   {applied: "main@sha1:1", inputs: inputs("a"), partly: inputs("b"), set: setAt("main@sha1:2", "b"), isNew: true},
		"being deleted":                        {applied: "main@sha1:1", deleted: &now, isNew: true, deleting: true},
	} {
		t.Run(name, func(t *testing.T) {
			one := int32(1)
			n := &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Namespace: "plumbline-system", Name: "prod"}, Spec: v1alpha1.NodeSyncSpec{Guard: v1alpha1.Guard{MaxRemovedPools: &one}}}
			n.Spec.Adopt, n.Spec.Drift = v1alpha1.AdoptNever, v1alpha1.DriftReport
			n.Status.LastAppliedRevision, n.DeletionTimestamp = c.applied, c.deleted
			n.Status.LastAppliedInputs, n.Status.PartlyAppliedInputs = c.inputs, c.partly
			p := PolicyOf(n, others, c.set)
			if p.NewRevision != c.isNew || p.StatusLost != c.lost || p.Deleting != c.deleting {
				t.Errorf("new %t, lost %t, deleting %t", p.NewRevision, p.StatusLost, p.Deleting)
			}
			if p.Adopt != v1alpha1.AdoptNever || p.Drift != v1alpha1.DriftReport || *p.Guard.MaxRemovedPools != 1 {
				t.Errorf("policy %+v", p)
			}
			want := []OtherSync{{Owner: OwnerOf("plumbline-system", "gpu")}, {Owner: OwnerOf("elsewhere", "prod")}}
			if diff := cmp.Diff(want, p.OtherSyncs); diff != "" {
				t.Errorf("others:\n%s", diff)
			}
		})
	}
}

// setAt returns a Set of a revision with one file.
func setAt(revision, file string) *render.Set {
	return &render.Set{Revision: revision, Inputs: render.Inputs{file: "1"}}
}
