package reconcile

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
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
		applied, revision     string
		deleted               *metav1.Time
		isNew, lost, deleting bool
	}{
		"first commit":  {"", "main@sha1:1", nil, true, true, false},
		"same commit":   {"main@sha1:1", "main@sha1:1", nil, false, false, false},
		"newer commit":  {"main@sha1:1", "main@sha1:2", nil, true, false, false},
		"being deleted": {"main@sha1:1", plan.RevisionDeleted, &now, true, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			sync := nodeSync(func(n *v1alpha1.NodeSync) {
				n.Spec.Adopt, n.Spec.Drift = v1alpha1.AdoptNever, v1alpha1.DriftReport
				n.Status.LastAppliedRevision, n.DeletionTimestamp = c.applied, c.deleted
			})
			p := PolicyOf(sync, others, c.revision)
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
