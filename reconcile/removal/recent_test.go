package removal

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestWhatTheGuardLetsGoIsRecordedOnce: what is held, queued or left to itself is not, nor is a class, and nothing without a
// period.
func TestWhatTheGuardLetsGoIsRecordedOnce(t *testing.T) {
	at := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(d)) }
	goes := plan.Candidate{Ref: general, UID: "p1", Nodes: 3}
	entry := v1alpha1.RecentRemoval{Name: "general", UID: "p1", At: at(0), Nodes: 3}
	for name, c := range map[string]struct {
		of     func(*plan.Candidate)
		before []v1alpha1.RecentRemoval
		period *metav1.Duration
		want   []v1alpha1.RecentRemoval
	}{
		"let go":              {want: []v1alpha1.RecentRemoval{entry}},
		"held":                {of: func(c *plan.Candidate) { c.Held = true }},
		"queued":              {of: func(c *plan.Candidate) { c.Queued = true }},
		"left to itself":      {of: func(c *plan.Candidate) { c.Orphan = true }},
		"a class":             {of: func(c *plan.Candidate) { c.Ref.Kind = render.EC2NodeClass }},
		"without a period":    {period: &metav1.Duration{}},
		"recorded already":    {before: []v1alpha1.RecentRemoval{entry}, want: []v1alpha1.RecentRemoval{entry}},
		"its pool has grown":  {before: []v1alpha1.RecentRemoval{{Name: "general", UID: "p1", At: at(0), Nodes: 1}}, want: []v1alpha1.RecentRemoval{entry}},
		"its pool has shrunk": {before: []v1alpha1.RecentRemoval{{Name: "general", UID: "p1", At: at(0), Nodes: 9}}, want: []v1alpha1.RecentRemoval{{Name: "general", UID: "p1", At: at(0), Nodes: 9}}},
		"one of long ago":     {of: func(c *plan.Candidate) { c.Held = true }, before: []v1alpha1.RecentRemoval{{Name: "old", UID: "o", At: at(-time.Hour)}}},
		"by a clock put back": {before: []v1alpha1.RecentRemoval{{Name: "general", UID: "p1", At: at(time.Hour), Nodes: 3}}, want: []v1alpha1.RecentRemoval{entry}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newBed(t).step()
			candidate := goes
			if c.of != nil {
				c.of(&candidate)
			}
			s.Plan = &plan.Plan{Removals: []plan.Candidate{candidate}}
			s.Sync.Status.RecentRemovals, s.Sync.Spec.Guard.RemovalPeriod = c.before, c.period
			s.recordCandidates()
			s.recordRecent()
			if diff := cmp.Diff(c.want, s.Sync.Status.RecentRemovals); diff != "" {
				t.Errorf("recorded (-want +got):\n%s", diff)
			}
			if starts := s.counts["p1"]; starts != (len(c.want) > 0) {
				t.Errorf("its removal starts once the record is read back: %t", starts)
			}
		})
	}
}

// TestARevertedRemovalCountsWithWhatItHasTerminated, and not at all if that is no node.
func TestARevertedRemovalCountsWithWhatItHasTerminated(t *testing.T) {
	for nodes, want := range map[int32][]v1alpha1.RecentRemoval{
		1: nil, // the node that there was still runs
		3: {{Name: "general", UID: "p1", At: metav1.NewTime(now), Nodes: 2}},
	} {
		s := newBed(t).step(general)
		s.Sync.Status.RecentRemovals = []v1alpha1.RecentRemoval{{Name: "general", UID: "p1", At: metav1.NewTime(now), Nodes: nodes}}
		s.recordReverted(v1alpha1.Removal{Kind: general.Kind, Name: general.Name, UID: "p1", RecordedAt: metav1.NewTime(now)})
		if diff := cmp.Diff(want, s.Sync.Status.RecentRemovals); diff != "" {
			t.Errorf("of %d (-want +got):\n%s", nodes, diff)
		}
	}
}
