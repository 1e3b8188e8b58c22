package plan_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/internal/property"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// TestBudgetsThatOpenLater are weighed as those that are open: nodes that have drifted and wait go with the
// first of their windows.
func TestBudgetsThatOpenLater(t *testing.T) {
	const never, nightly = `[{nodes: "0"}]`, `[{nodes: "0", schedule: "0 0 * * *", duration: 23h}]`
	const shorter, minutely = `[{nodes: "0", schedule: "0 0 * * *", duration: 22h}]`, `[{nodes: "0", schedule: "* * * * *", duration: 1h}]`
	for name, test := range map[string]struct {
		before, after string
		frees         int
	}{
		"never, and tonight":                {never, nightly, 4},
		"tonight, and tonight":              {nightly, shorter, 0},
		"tonight, and now":                  {nightly, `[{nodes: "100%"}]`, 4},
		"some of them now, and tonight all": {`[{nodes: "1"}]`, nightly, 4},
		"now, and tonight":                  {`[{nodes: "100%"}]`, nightly, 0},
		"nobody looks so long":              {never, minutely, 4},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			of := func(budgets string) string {
				return pool("a", "default", "disruption: {consolidateAfter: 0s, budgets: "+budgets+"}")
			}
			c.have(t, owner, class("default"), of(test.before))
			c.live.NodeClaims = claims("a", 4, func(c *plan.NodeClaim) { c.Drifted = true })
			c.policy.Now = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
			if got := c.plan(t, class("default"), of(test.after)).Changes[0].Nodes; got != test.frees {
				t.Errorf("frees %d, want %d", got, test.frees)
			}
		})
	}
}

// TestBudgetsAreLookedAtSoOften and no oftener, whatever Git has of them.
func TestBudgetsAreLookedAtSoOften(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	of := func(n int, schedule string) *karpv1.NodePool {
		pool := &karpv1.NodePool{}
		for i := range n {
			pool.Spec.Disruption.Budgets = append(pool.Spec.Disruption.Budgets, karpv1.Budget{
				Nodes: "0", Schedule: ptr.To(schedule), Duration: &metav1.Duration{Duration: time.Hour + time.Duration(i)*time.Second},
			})
		}
		return pool
	}
	for name, test := range map[string]struct {
		pool  *karpv1.NodePool
		whole bool
	}{
		"49 that turn each minute": {of(49, "* * * * *"), false},
		"one that does":            {of(1, "* * * * *"), false},
		"49 that turn each day":    {of(49, "0 9 * * *"), true},
	} {
		if n, whole := plan.Turns(test.pool, now); n > 2000 || n == 0 && test.whole || whole != test.whole {
			t.Errorf("%s: %d times, all of them %v", name, n, whole)
		}
	}
}

// TestBudgetsAreReadAsKarpenterReadsThem at any time.
func TestBudgetsAreReadAsKarpenterReadsThem(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		pool := &karpv1.NodePool{}
		for i := range rapid.IntRange(0, 4).Draw(t, "budgets") {
			of := func(what string) string { return fmt.Sprint(what, i) }
			b := karpv1.Budget{Nodes: rapid.SampledFrom([]string{"0", "1", "10%", "50%", "100%", "7"}).Draw(t, of("nodes"))}
			if rapid.Bool().Draw(t, of("scheduled")) {
				schedules := []string{"* * * * *", "0 9 * * 1-5", "@daily", "30 */6 * * *", "0 0 30 2 *", "15 10 1 * *", "unreadable"}
				b.Schedule = ptr.To(rapid.SampledFrom(schedules).Draw(t, of("schedule")))
				b.Duration = &metav1.Duration{Duration: time.Duration(rapid.IntRange(1, 3000).Draw(t, of("minutes"))) * time.Minute}
			}
			b.Reasons = rapid.SampledFrom([][]karpv1.DisruptionReason{nil, {karpv1.DisruptionReasonDrifted}, {karpv1.DisruptionReasonEmpty}}).Draw(t, of("reasons"))
			pool.Spec.Disruption.Budgets = append(pool.Spec.Disruption.Budgets, b)
		}
		nodes := rapid.IntRange(0, 40).Draw(t, "nodes")
		now := time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC).Add(time.Duration(rapid.IntRange(0, 31*24*3600).Draw(t, "now")) * time.Second)
		want, unreadable := pool.GetAllowedDisruptionsByReason(clocktesting.NewFakeClock(now), nodes, karpv1.DisruptionReasonDrifted)
		got, err := plan.AllowedAt(pool, nodes, now)
		if (err != nil) != (unreadable != nil) {
			t.Fatalf("unreadable %v, for Karpenter %v", err, unreadable)
		}
		if diff := cmp.Diff(min(want, nodes), got); err == nil && diff != "" {
			t.Errorf("(-Karpenter +read):\n%s", diff)
		}
	})
}
