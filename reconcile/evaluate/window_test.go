package evaluate

import (
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// TestAPassAtTheWindow shows that a reconcile is scheduled for the window only if something waits for it.
func TestAPassAtTheWindow(t *testing.T) {
	opens := time.Date(2026, 3, 1, 22, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		made   plan.Plan
		before []v1alpha1.Removal
		want   time.Time
	}{
		"nothing waits":           {made: plan.Plan{Changes: []plan.Change{{Action: plan.Update}}}},
		"a change waits":          {made: plan.Plan{Changes: []plan.Change{{Action: plan.Wait, Reason: plan.ReasonFrozen}}}, want: opens},
		"a removal is to come":    {made: plan.Plan{Removals: []plan.Candidate{{}}}, want: opens},
		"a removal has begun":     {before: []v1alpha1.Removal{{}}, want: opens},
		"a change waits for more": {made: plan.Plan{Changes: []plan.Change{{Action: plan.Wait, Reason: plan.ReasonClassNotMade}}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := planStep(nodeSync(unchanged))
			s.Before.Removals = c.before
			c.made.Frozen = plan.Frozen{Message: "not before", Until: opens}
			if s.awaitWindow(&c.made); !s.WakeAt.Equal(c.want) {
				t.Errorf("a pass at %s, want %s", s.WakeAt, c.want)
			}
			s = planStep(nodeSync(unchanged))
			c.made.Frozen = plan.Frozen{}
			if s.awaitWindow(&c.made); !s.WakeAt.IsZero() {
				t.Errorf("open, and a pass at %s", s.WakeAt)
			}
		})
	}
}
