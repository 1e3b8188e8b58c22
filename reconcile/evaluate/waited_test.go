package evaluate

import (
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// TestAWaitOutlivesARestart shows that the start of a wait for a failing NodeSync is read from the status: otherwise,
// it would never count as stalled.
func TestAWaitOutlivesARestart(t *testing.T) {
	since := time.Date(2026, 3, 1, 11, 50, 0, 0, time.UTC)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	fails := func(n *v1alpha1.NodeSync) { conditions.MarkFalse(n, meta.ReadyCondition, "SourceFailed", "no host") }
	for name, c := range map[string]struct {
		other   func(*v1alpha1.NodeSync)
		waiting *v1alpha1.Waiting
		// first and then are since when it is waited for in the first reconcile, and in later ones.
		first, then time.Time
	}{
		"it was waited for":               {fails, &v1alpha1.Waiting{For: "NodeSync/gpu", Since: metav1.NewTime(since)}, since, since},
		"by its full name":                {fails, &v1alpha1.Waiting{For: "NodeSync/plumbline-system/gpu", Since: metav1.NewTime(since)}, since, since},
		"nothing was":                     {fails, nil, time.Time{}, now},
		"something else was":              {fails, &v1alpha1.Waiting{For: "NodeSync/cpu", Since: metav1.NewTime(since)}, time.Time{}, now},
		"it is only to have its pass yet": {unchanged, &v1alpha1.Waiting{For: "NodeSync/gpu", Since: metav1.NewTime(since)}, time.Time{}, now},
	} {
		t.Run(name, func(t *testing.T) {
			s := planStep(nodeSync(func(n *v1alpha1.NodeSync) { n.Status.Waiting = c.waiting }))
			s.Now = now
			all := []v1alpha1.NodeSync{*s.Sync, *another(c.other)}
			if got := s.otherSyncs(all)[0].Since; !got.Equal(c.first) {
				t.Errorf("first it is waited for since %s, want %s", got, c.first)
			}
			for range 2 {
				s.awaitOthers(&plan.Plan{Kept: []plan.Kept{{}}}, all, true)
				if got := s.otherSyncs(all)[0].Since; !got.Equal(c.then) {
					t.Errorf("then it is waited for since %s, want %s", got, c.then)
				}
			}
		})
	}
}
