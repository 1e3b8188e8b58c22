package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
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
			sync := &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.RemoveAnnotation: c.annotation}}}
			sync.Status.LastAppliedRevision = "main@sha1:1"
			if diff := cmp.Diff(c.want, released(sync)); diff != "" {
				t.Error(diff)
			}
		})
	}
	if got := released(&v1alpha1.NodeSync{}); len(got) > 0 {
		t.Errorf("without the annotation: %v", got)
	}
}

// TestUsedReleases: a release expires when Git contains the object, and counts again after it was removed from the
// annotation.
func TestUsedReleases(t *testing.T) {
	for name, c := range map[string]struct {
		annotation     string
		before, inGit  []types.UID
		after          []types.UID
		counts, usedUp map[types.UID]bool
	}{
		"none":                             {counts: map[types.UID]bool{}, usedUp: map[types.UID]bool{}},
		"still held":                       {annotation: "u1", counts: map[types.UID]bool{"u1": true}, usedUp: map[types.UID]bool{}},
		"in Git again":                     {annotation: "u1,u2", inGit: []types.UID{"u1"}, after: []types.UID{"u1"}, counts: map[types.UID]bool{"u1": true, "u2": true}, usedUp: map[types.UID]bool{}},
		"out of Git after that":            {annotation: "u2,u1", before: []types.UID{"u1"}, after: []types.UID{"u1"}, counts: map[types.UID]bool{"u2": true}, usedUp: map[types.UID]bool{"u1": true}},
		"taken out of the annotation":      {annotation: "u2", before: []types.UID{"u1"}, counts: map[types.UID]bool{"u2": true}, usedUp: map[types.UID]bool{}},
		"one after the other, both sorted": {annotation: "u2,u1", before: []types.UID{"u2"}, inGit: []types.UID{"u1"}, after: []types.UID{"u1", "u2"}, counts: map[types.UID]bool{"u1": true}, usedUp: map[types.UID]bool{"u2": true}},
	} {
		t.Run(name, func(t *testing.T) {
			sync := &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.RemoveAnnotation: c.annotation}}}
			sync.Status.UsedReleases, sync.Status.LastAppliedRevision = c.before, "main@sha1:1"
			if diff := cmp.Diff(c.counts, released(sync)); diff != "" {
				t.Errorf("what counts (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.usedUp, usedUp(sync)); diff != "" {
				t.Errorf("what is used up (-want +got):\n%s", diff)
			}
			var now []Used
			for _, uid := range c.inGit {
				now = append(now, Used{UID: uid})
			}
			m := &maker{policy: Policy{UsedUp: usedUp(sync)}}
			if diff := cmp.Diff(c.after, m.usedReleases(now)); diff != "" {
				t.Errorf("used after the Plan (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAReleaseOfBeforeTheStatusWasLost: it is unknown whether it was used, so only releases that were annotated after
// the hold was recorded count.
func TestAReleaseOfBeforeTheStatusWasLost(t *testing.T) {
	sync := &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.RemoveAnnotation: "u1,u2"}}}
	sync.Status.Removals = []v1alpha1.Removal{{UID: "u2", Phase: v1alpha1.RemovalHeld}}
	if diff := cmp.Diff(map[types.UID]bool{"u2": true}, released(sync)); diff != "" {
		t.Errorf("what counts (-want +got):\n%s", diff)
	}
	m := &maker{policy: Policy{UsedUp: usedUp(sync)}}
	if diff := cmp.Diff([]types.UID{"u1"}, m.usedReleases(nil)); diff != "" {
		t.Errorf("what is used up (-want +got):\n%s", diff)
	}
}
