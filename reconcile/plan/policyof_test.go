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
	others := []v1alpha1.NodeSync{
		{ObjectMeta: metav1.ObjectMeta{Namespace: "plumbline-system", Name: "prod"}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: "plumbline-system", Name: "gpu"}},
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
			one := int32(1)
			n := &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Namespace: "plumbline-system", Name: "prod"}, Spec: v1alpha1.NodeSyncSpec{Guard: v1alpha1.Guard{MaxRemovedPools: &one}}}
			n.Spec.Adopt, n.Spec.Drift = v1alpha1.AdoptNever, v1alpha1.DriftReport
			n.Status.LastAppliedRevision, n.DeletionTimestamp = c.applied, c.deleted
			n.Status.LastAppliedInputs = c.inputs
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
