package conclude

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
)

// TestWhatMayStallIsKept: status.waiting says since when something is waited for that may
// not come by itself, once it has stalled as well: after a restart nothing else knows.
func TestWhatMayStallIsKept(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	before := &v1alpha1.Waiting{For: "NodePool/b", Message: "not Ready", Since: metav1.NewTime(now.Add(-time.Minute))}
	neighbor := func(since time.Time) finding.Wait {
		return finding.Wait{On: "NodeSync/a", Message: "it fails", Since: since, Stalls: since.Add(15 * time.Minute)}
	}
	pool, stage := finding.Wait{On: "NodePool/b", Message: "not Ready"}, finding.Wait{On: "Controller", Message: "no replica is ready"}
	recent, long := now.Add(-5*time.Minute), now.Add(-time.Hour)
	for name, c := range map[string]struct {
		before *v1alpha1.Waiting
		waits  []finding.Wait
		want   *v1alpha1.Waiting
	}{
		"for a while":          {nil, []finding.Wait{neighbor(recent)}, &v1alpha1.Waiting{For: "NodeSync/a", Message: "it fails", Since: metav1.NewTime(recent)}},
		"too long":             {nil, []finding.Wait{neighbor(long)}, &v1alpha1.Waiting{For: "NodeSync/a", Message: "it fails", Since: metav1.NewTime(long)}},
		"beside an object":     {before, []finding.Wait{pool, neighbor(recent)}, &v1alpha1.Waiting{For: "NodeSync/a", Message: "it fails", Since: metav1.NewTime(recent)}},
		"too long, beside one": {before, []finding.Wait{pool, neighbor(long)}, &v1alpha1.Waiting{For: "NodeSync/a", Message: "it fails", Since: metav1.NewTime(long)}},
		"beside a Stage":       {nil, []finding.Wait{stage, neighbor(recent)}, &v1alpha1.Waiting{For: "Controller", Message: "no replica is ready", Since: metav1.NewTime(now)}},
		"an object":            {before, []finding.Wait{pool}, before},
		"nothing":              {before, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			sync := &v1alpha1.NodeSync{Status: v1alpha1.NodeSyncStatus{Waiting: c.before}}
			s := &Step{Sync: sync.DeepCopy(), Before: sync, Began: now}
			s.Waits = c.waits
			s.setWaiting(s.Verdict())
			if diff := cmp.Diff(c.want, s.Sync.Status.Waiting); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
