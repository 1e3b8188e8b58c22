package conclude

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// TestWhatIsLeftOfAnOvertakenCommit: only where another commit goes on with its nodes.
func TestWhatIsLeftOfAnOvertakenCommit(t *testing.T) {
	of := func(commit string, outdated int32) *v1alpha1.Rollout {
		return &v1alpha1.Rollout{Revision: "main@sha1:" + commit, Nodes: 3, Outdated: outdated}
	}
	for name, c := range map[string]struct {
		was, is *v1alpha1.Rollout
		want    map[string]string
	}{
		"another commit":      {was: of("a", 2), is: of("b", 3), want: map[string]string{"a": "2 of its 3 nodes were left"}},
		"the same":            {was: of("a", 2), is: of("a", 1)},
		"it is over":          {was: of("a", 2)},
		"the first":           {is: of("a", 2)},
		"none had been begun": {was: of("a", 0), is: of("b", 3)},
		"drift by no commit":  {was: &v1alpha1.Rollout{Nodes: 3, Outdated: 2}, is: of("b", 3)},
	} {
		s := &Step{Sync: &v1alpha1.NodeSync{}, Before: &v1alpha1.NodeSync{}}
		s.Before.Status.Rollout, s.Sync.Status.Rollout = c.was, c.is
		if diff := cmp.Diff(c.want, s.overtaken()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
