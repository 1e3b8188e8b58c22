package rollout_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
)

// begins is when the rollouts of these tests start.
var begins = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// fleetPace is how a controller replaces the nodes of one NodePool.
type fleetPace struct {
	nodes, atATime int
	// decides is how long one decision takes, and replaces how long each node does from then on.
	decides, replaces time.Duration
}

// play returns when the replacement of each node starts, and when it is complete, both sorted.
func (f fleetPace) play() (starts, ends []time.Duration) {
	var at time.Duration
	for i := range f.nodes {
		if i >= f.atATime {
			at = max(at, ends[i-f.atATime])
		}
		at += f.decides
		starts, ends = append(starts, at), append(ends, at+f.replaces)
	}
	return starts, ends
}

// before counts the times that are not after another.
func before(times []time.Duration, at time.Duration) (n int) {
	for _, t := range times {
		if t <= at {
			n++
		}
	}
	return n
}

// TestTheEstimateIsWithinAFactorOfTwo of the whole rollout once a tenth of its nodes is replaced, and never later than
// twice as late before, whether budgets or Karpenter's decisions limit it. It seldom changes while no node is replaced.
func TestTheEstimateIsWithinAFactorOfTwo(t *testing.T) {
	for name, c := range map[string]struct {
		fleetPace
		limit v1alpha1.RolloutLimit
	}{
		"one at a time":                    {fleetPace{10, 1, time.Second, 90 * time.Second}, v1alpha1.LimitBudgets},
		"rounds":                           {fleetPace{40, 4, time.Second, 90 * time.Second}, v1alpha1.LimitBudgets},
		"slow drains":                      {fleetPace{100, 10, time.Second, 20 * time.Minute}, v1alpha1.LimitBudgets},
		"decisions":                        {fleetPace{1000, 700, 5 * time.Second, 90 * time.Second}, v1alpha1.LimitKarpenter},
		"17 an hour":                       {fleetPace{1000, 2100, 212 * time.Second, 2 * time.Minute}, v1alpha1.LimitKarpenter},
		"decisions and budgets in balance": {fleetPace{1000, 100, 300 * time.Millisecond, 20 * time.Second}, v1alpha1.LimitKarpenter},
	} {
		t.Run(name, func(t *testing.T) {
			starts, ends := c.play()
			whole := ends[len(ends)-1]
			var paces []v1alpha1.RolloutPace
			var estimate *v1alpha1.RolloutEstimate
			changes, measured, left := 0, 0, c.nodes
			for at := time.Duration(0); at < whole; at += 10 * time.Second {
				done := before(ends, at)
				seen := []rollout.PaceSeen{{
					Pool: "a", Outdated: c.nodes - done, Replacing: before(starts, at) - done, AtATime: c.atATime,
					Launch: c.replaces * 3 / 4, Decision: plan.Decision(c.nodes),
				}}
				now := begins.Add(at)
				was := estimate
				paces = rollout.Measure(paces, seen, now)
				estimate, _ = rollout.Estimate(estimate, paces, seen, rollout.Limit{}, now)
				if estimate != nil && was != nil && !estimate.EndsAt.Equal(was.EndsAt) && left == c.nodes-done {
					changes++
				}
				left = c.nodes - done
				if estimate == nil || estimate.EndsAt == nil {
					continue
				}
				share := float64(estimate.EndsAt.Sub(begins)) / float64(whole)
				if share > 2 || !estimate.AtLeast && share < 0.5 {
					t.Fatalf("after %s, with %d replaced: %+v, %.2f of %s", at, done, estimate, share, whole)
				}
				if !estimate.AtLeast && done*2 < c.nodes {
					measured++
					if estimate.LimitedBy != c.limit {
						t.Errorf("after %s, with %d replaced: limited by %q, want %q", at, done, estimate.LimitedBy, c.limit)
					}
				}
				if estimate.AtLeast && done*5 > c.nodes {
					t.Fatalf("after %s, with %d replaced: not measured yet", at, done)
				}
			}
			if measured == 0 {
				t.Error("it was not measured")
			}
			if changes > 12 {
				t.Errorf("the expected time changed %d times while no node was replaced", changes)
			}
		})
	}
}

// TestTheFirstEstimateIsByKarpentersRules: as many at a time as the budgets allow, one decision after another, and in
// windows only.
func TestTheFirstEstimateIsByKarpentersRules(t *testing.T) {
	at := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: begins.Add(d)} }
	window := func(from, to time.Duration) plan.Window {
		return plan.Window{From: begins.Add(from), To: begins.Add(to)}
	}
	for name, c := range map[string]struct {
		seen rollout.PaceSeen
		want *v1alpha1.RolloutEstimate
	}{
		"nothing is known":    {rollout.PaceSeen{Outdated: 40}, nil},
		"rounds":              {rollout.PaceSeen{Outdated: 40, AtATime: 4, Launch: time.Minute, Decision: 10 * time.Millisecond}, &v1alpha1.RolloutEstimate{EndsAt: at(11 * time.Minute), AtLeast: true, LimitedBy: v1alpha1.LimitBudgets}},
		"all at once":         {rollout.PaceSeen{Outdated: 4, AtATime: 4, Launch: time.Minute}, &v1alpha1.RolloutEstimate{EndsAt: at(2 * time.Minute), AtLeast: true}},
		"launches unknown":    {rollout.PaceSeen{Outdated: 40, AtATime: 4}, &v1alpha1.RolloutEstimate{LimitedBy: v1alpha1.LimitBudgets}},
		"decisions":           {rollout.PaceSeen{Outdated: 1000, AtATime: 2100, Launch: time.Minute, Decision: plan.Decision(5000)}, &v1alpha1.RolloutEstimate{EndsAt: at(23 * time.Minute), AtLeast: true, LimitedBy: v1alpha1.LimitKarpenter}},
		"never":               {rollout.PaceSeen{Outdated: 40, Blocked: v1alpha1.LimitBudgets}, &v1alpha1.RolloutEstimate{LimitedBy: v1alpha1.LimitBudgets}},
		"a window opens":      {rollout.PaceSeen{Outdated: 2, AtATime: 2, Launch: time.Minute, Closed: true, Opens: begins.Add(time.Hour), Open: []plan.Window{window(time.Hour, 2*time.Hour)}}, &v1alpha1.RolloutEstimate{EndsAt: at(62 * time.Minute), AtLeast: true, LimitedBy: v1alpha1.LimitWindows}},
		"it opens, some time": {rollout.PaceSeen{Outdated: 2, AtATime: 2, Launch: time.Minute, Closed: true, Opens: begins.Add(24 * time.Hour)}, &v1alpha1.RolloutEstimate{EndsAt: at(24*time.Hour + 2*time.Minute), AtLeast: true, LimitedBy: v1alpha1.LimitWindows}},
		"two windows":         {rollout.PaceSeen{Outdated: 90, AtATime: 1, Launch: time.Minute, Open: []plan.Window{window(-time.Hour, time.Hour), window(24*time.Hour, 26*time.Hour)}}, &v1alpha1.RolloutEstimate{EndsAt: at(24*time.Hour + 31*time.Minute), AtLeast: true, LimitedBy: v1alpha1.LimitWindows}},
		"more than are known": {rollout.PaceSeen{Outdated: 180, AtATime: 1, Launch: time.Minute, Open: []plan.Window{window(0, time.Hour), window(24*time.Hour, 25*time.Hour)}}, &v1alpha1.RolloutEstimate{EndsAt: at(45*24*time.Hour + time.Minute), AtLeast: true, LimitedBy: v1alpha1.LimitWindows}},
		"closed for a month":  {rollout.PaceSeen{Outdated: 2, AtATime: 1, Launch: time.Minute, Closed: true, Open: []plan.Window{}}, &v1alpha1.RolloutEstimate{EndsAt: at(30*24*time.Hour + time.Minute), AtLeast: true, LimitedBy: v1alpha1.LimitWindows}},
	} {
		t.Run(name, func(t *testing.T) {
			c.seen.Pool = "a"
			seen := []rollout.PaceSeen{c.seen}
			got, _ := rollout.Estimate(nil, rollout.Measure(nil, seen, begins), seen, rollout.Limit{}, begins)
			if c.want != nil {
				c.want.Pool = "a"
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestTheLastPoolCounts: a rollout is complete when its last NodePool is, and one whose nodes wait for something that
// does not pass makes the time unknown.
func TestTheLastPoolCounts(t *testing.T) {
	fast := rollout.PaceSeen{Pool: "fast", Outdated: 4, AtATime: 4, Launch: time.Minute}
	slow := rollout.PaceSeen{Pool: "slow", Outdated: 40, AtATime: 1, Launch: time.Minute}
	kept := rollout.PaceSeen{Pool: "kept", Outdated: 1, AtATime: 1, Launch: time.Minute, Blocked: v1alpha1.LimitPods}
	for name, c := range map[string]struct {
		seen  []rollout.PaceSeen
		pool  string
		limit v1alpha1.RolloutLimit
		ends  bool
	}{
		"the slow one":  {[]rollout.PaceSeen{fast, slow}, "slow", v1alpha1.LimitBudgets, true},
		"a blocked one": {[]rollout.PaceSeen{fast, kept, slow}, "kept", v1alpha1.LimitPods, false},
	} {
		got, _ := rollout.Estimate(nil, rollout.Measure(nil, c.seen, begins), c.seen, rollout.Limit{}, begins)
		if got == nil || got.Pool != c.pool || got.LimitedBy != c.limit || (got.EndsAt != nil) != c.ends {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestMeasure: what is recorded of a NodePool changes only with its numbers. Time in which no node may be replaced does
// not count, and nodes that are found later do.
func TestMeasure(t *testing.T) {
	at := func(minutes int) time.Time { return begins.Add(time.Duration(minutes) * time.Minute) }
	since, closed := metav1.NewTime(at(0)).Rfc3339Copy(), metav1.NewTime(at(4)).Rfc3339Copy()
	var paces []v1alpha1.RolloutPace
	for _, step := range []struct {
		minute int
		seen   rollout.PaceSeen
		want   v1alpha1.RolloutPace
	}{
		{0, rollout.PaceSeen{Outdated: 10, AtATime: 2}, v1alpha1.RolloutPace{Nodes: 10, Outdated: 10}},
		{1, rollout.PaceSeen{Outdated: 10, Replacing: 2}, v1alpha1.RolloutPace{Nodes: 10, Outdated: 10, AtATime: 2}},
		{2, rollout.PaceSeen{Outdated: 8, Replacing: 1}, v1alpha1.RolloutPace{Nodes: 10, Outdated: 8, AtATime: 2, TookSeconds: 120}},
		{3, rollout.PaceSeen{Outdated: 8, Replacing: 2}, v1alpha1.RolloutPace{Nodes: 10, Outdated: 8, AtATime: 2, TookSeconds: 120}},
		{4, rollout.PaceSeen{Outdated: 8, Closed: true}, v1alpha1.RolloutPace{Nodes: 10, Outdated: 8, AtATime: 2, TookSeconds: 120, ClosedSince: &closed}},
		{30, rollout.PaceSeen{Outdated: 7, Closed: true}, v1alpha1.RolloutPace{Nodes: 10, Outdated: 7, AtATime: 2, TookSeconds: 240, ClosedSince: &closed}},
		{64, rollout.PaceSeen{Outdated: 7}, v1alpha1.RolloutPace{Nodes: 10, Outdated: 7, AtATime: 2, TookSeconds: 240, ClosedSeconds: 3600}},
		{65, rollout.PaceSeen{Outdated: 6}, v1alpha1.RolloutPace{Nodes: 10, Outdated: 6, AtATime: 2, TookSeconds: 300, ClosedSeconds: 3600}},
		{66, rollout.PaceSeen{Outdated: 9}, v1alpha1.RolloutPace{Nodes: 13, Outdated: 9, AtATime: 2, TookSeconds: 300, ClosedSeconds: 3600}},
		{67, rollout.PaceSeen{Outdated: 9, Blocked: v1alpha1.LimitPods}, v1alpha1.RolloutPace{Nodes: 13, Outdated: 9, AtATime: 2, TookSeconds: 300, ClosedSeconds: 3600}},
	} {
		step.seen.Pool, step.want.Pool, step.want.Since = "a", "a", since
		paces = rollout.Measure(paces, []rollout.PaceSeen{step.seen}, at(step.minute))
		if diff := cmp.Diff([]v1alpha1.RolloutPace{step.want}, paces); diff != "" {
			t.Errorf("in minute %d (-want +got):\n%s", step.minute, diff)
		}
	}
	if paces = rollout.Measure(paces, []rollout.PaceSeen{{Pool: "a"}}, at(70)); len(paces) > 0 {
		t.Errorf("when all nodes match: %+v", paces)
	}
}

// TestTheRecordOfPacesIsBounded: of many NodePools, those with the most outdated nodes are recorded.
func TestTheRecordOfPacesIsBounded(t *testing.T) {
	var seen []rollout.PaceSeen
	for i := range 100 {
		seen = append(seen, rollout.PaceSeen{Pool: fmt.Sprintf("pool-%02d", i), Outdated: i + 1})
	}
	paces := rollout.Measure(nil, seen, begins)
	sorted := slices.IsSortedFunc(paces, func(a, b v1alpha1.RolloutPace) int { return strings.Compare(a.Pool, b.Pool) })
	if len(paces) != 30 || paces[0].Pool != "pool-70" || !sorted {
		t.Errorf("%d, the first is %s, sorted: %t", len(paces), paces[0].Pool, sorted)
	}
}

// paceLook is one look at a rollout with a timeout.
type paceLook struct {
	minute int
	seen   rollout.PaceSeen
	// late reports whether the rollout is then expected to exceed the timeout, and by is by how much.
	late bool
	by   time.Duration
}

// TestARolloutThatWillExceedItsTimeout is reported as soon as that is known, and no longer only once the expected time
// is within the timeout.
func TestARolloutThatWillExceedItsTimeout(t *testing.T) {
	one := func(outdated, replacing int) rollout.PaceSeen {
		return rollout.PaceSeen{Outdated: outdated, Replacing: replacing, AtATime: 1, Launch: time.Minute}
	}
	blocked := func(outdated int, by v1alpha1.RolloutLimit) rollout.PaceSeen {
		s := one(outdated, 1)
		s.Blocked = by
		return s
	}
	opens := one(2, 0)
	opens.Closed, opens.Opens = true, begins.Add(5*time.Hour)
	for name, c := range map[string]struct {
		timeout time.Duration
		looks   []paceLook
	}{
		"it is in time":                {time.Hour, []paceLook{{0, one(10, 0), false, 0}, {6, one(9, 1), false, 0}, {12, one(8, 1), false, 0}}},
		"by the rules":                 {time.Hour, []paceLook{{0, one(100, 0), true, 50 * time.Minute}}},
		"by the pace":                  {time.Hour, []paceLook{{0, one(10, 0), false, 0}, {10, one(9, 1), true, 50 * time.Minute}}},
		"by little":                    {time.Hour, []paceLook{{0, one(10, 0), false, 0}, {6, one(9, 1), false, 0}, {12, one(8, 1), false, 0}, {19, one(7, 1), false, 0}}},
		"a window after the timeout":   {4 * time.Hour, []paceLook{{0, opens, true, 2 * time.Hour}}},
		"a window before the timeout":  {6 * time.Hour, []paceLook{{0, opens, false, 0}}},
		"budgets that allow none":      {time.Hour, []paceLook{{0, blocked(2, v1alpha1.LimitBudgets), true, 0}}},
		"a PodDisruptionBudget":        {time.Hour, []paceLook{{0, one(2, 0), false, 0}, {1, blocked(2, v1alpha1.LimitPods), false, 0}, {29, blocked(2, v1alpha1.LimitPods), false, 0}, {30, blocked(2, v1alpha1.LimitPods), true, 0}, {59, blocked(2, v1alpha1.LimitPods), true, 0}, {60, blocked(2, v1alpha1.LimitPods), false, 0}}},
		"launches":                     {time.Hour, []paceLook{{0, blocked(2, v1alpha1.LimitLaunches), false, 0}, {31, blocked(2, v1alpha1.LimitLaunches), true, 0}}},
		"no controller":                {time.Hour, []paceLook{{0, one(2, 0), false, 0}, {10, blocked(2, v1alpha1.LimitKarpenter), false, 0}, {34, blocked(2, v1alpha1.LimitKarpenter), false, 0}, {36, blocked(2, v1alpha1.LimitKarpenter), true, 0}}},
		"stopped":                      {time.Hour, []paceLook{{0, blocked(2, v1alpha1.LimitStopped), false, 0}, {50, blocked(2, v1alpha1.LimitStopped), false, 0}}},
		"the budget is gone":           {time.Hour, []paceLook{{0, one(2, 0), false, 0}, {40, blocked(2, v1alpha1.LimitPods), true, 0}, {41, one(2, 1), true, 0}, {42, one(1, 1), true, 30 * time.Minute}}},
		"it becomes faster":            {100 * time.Minute, []paceLook{{0, one(10, 0), false, 0}, {20, one(9, 1), true, 2 * time.Hour}, {22, one(8, 1), true, 20 * time.Minute}, {24, one(5, 1), false, 0}}},
		"without a timeout":            {0, []paceLook{{0, one(100, 0), false, 0}}},
		"what it waits for is unknown": {time.Hour, []paceLook{{0, one(1, 0), false, 0}, {50, one(1, 1), false, 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			var paces []v1alpha1.RolloutPace
			var estimate *v1alpha1.RolloutEstimate
			var since *metav1.Time
			for _, look := range c.looks {
				look.seen.Pool = "a"
				now, seen := begins.Add(time.Duration(look.minute)*time.Minute), []rollout.PaceSeen{look.seen}
				paces = rollout.Measure(paces, seen, now)
				var again time.Time
				estimate, again = rollout.Estimate(estimate, paces, seen, rollout.Limit{Since: begins, Timeout: c.timeout}, now)
				late := estimate != nil && estimate.ExceedsSince != nil
				if late != look.late {
					t.Fatalf("in minute %d: %+v", look.minute, estimate)
				}
				if !again.IsZero() && !again.After(now) {
					t.Errorf("in minute %d it looks again at %s, which is past", look.minute, again)
				}
				if !late {
					since = nil
					continue
				}
				if by := estimate.ExceedsBy; look.by > 0 && (by == nil || by.Duration != look.by) {
					t.Errorf("in minute %d by %v, want %s", look.minute, by, look.by)
				}
				if since != nil && !since.Equal(estimate.ExceedsSince) {
					t.Errorf("in minute %d since %s, before since %s", look.minute, estimate.ExceedsSince, since)
				}
				since = estimate.ExceedsSince
			}
		})
	}
}

// TestAWaitIsLookedAtAgain when it may have lasted for longer than the remaining time.
func TestAWaitIsLookedAtAgain(t *testing.T) {
	seen := []rollout.PaceSeen{{Pool: "a", Outdated: 2, Blocked: v1alpha1.LimitPods}}
	paces := rollout.Measure(nil, seen, begins)
	limit := rollout.Limit{Since: begins, Timeout: 3 * time.Minute}
	estimate, again := rollout.Estimate(nil, paces, seen, limit, begins.Add(time.Minute))
	if estimate.ExceedsSince != nil || !again.Equal(begins.Add(91*time.Second)) {
		t.Errorf("%+v, again at %s", estimate, again)
	}
	if estimate, _ = rollout.Estimate(estimate, paces, seen, limit, again); estimate.ExceedsSince == nil {
		t.Errorf("then: %+v", estimate)
	}
}

// TestLate shows what is reported of a rollout that is expected to exceed its timeout.
func TestLate(t *testing.T) {
	now := metav1.NewTime(begins)
	of := func(by time.Duration, limit v1alpha1.RolloutLimit, message string) v1alpha1.Rollout {
		e := &v1alpha1.RolloutEstimate{Pool: "general", LimitedBy: limit, ExceedsSince: &now}
		if by > 0 {
			e.ExceedsBy = &metav1.Duration{Duration: by}
		}
		return v1alpha1.Rollout{Nodes: 40, Outdated: 31, Message: message, Estimate: e}
	}
	for want, r := range map[string]v1alpha1.Rollout{
		"": {Nodes: 40, Outdated: 31, Estimate: &v1alpha1.RolloutEstimate{LimitedBy: v1alpha1.LimitBudgets}},
		"will exceed rollout.timeout by 2d: 31 of 40 nodes wait for PodDisruptionBudget web/web":                                                       of(48*time.Hour, v1alpha1.LimitPods, "waits for PodDisruptionBudget web/web"),
		"will exceed rollout.timeout: 31 of 40 nodes remain: NodePool/general launches no replacements: no capacity":                                   of(0, v1alpha1.LimitLaunches, "NodePool/general launches no replacements: no capacity"),
		"will exceed rollout.timeout by 3h: 31 of 40 nodes wait for disruption budgets of NodePool/general":                                            of(3*time.Hour, v1alpha1.LimitBudgets, ""),
		"will exceed rollout.timeout by 20m: 31 of 40 nodes wait for Karpenter, which replaces fewer nodes of NodePool/general than its budgets allow": of(20*time.Minute, v1alpha1.LimitKarpenter, ""),
		"will exceed rollout.timeout: 31 of 40 nodes remain":                                                                                           of(0, "", ""),
	} {
		if got := rollout.Late(r); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// TestExpected shows what `plumbline status` prints about the estimate.
func TestExpected(t *testing.T) {
	at := metav1.NewTime(begins)
	paces := []v1alpha1.RolloutPace{{Pool: "general", Nodes: 40, Outdated: 31, TookSeconds: 5400}}
	for want, e := range map[string]*v1alpha1.RolloutEstimate{
		"": nil,
		"complete on Tue 24 Nov 12:00 UTC at the earliest; limited by disruption budgets of NodePool/general":                           {EndsAt: &at, AtLeast: true, Pool: "general", LimitedBy: v1alpha1.LimitBudgets},
		"complete about Tue 24 Nov 12:00 UTC (NodePool/general: 9 of 40 nodes replaced in 1h30m)":                                       {EndsAt: &at, Pool: "general"},
		"complete at an unknown time (NodePool/general: 9 of 40 nodes replaced in 1h30m); limited by pods on nodes of NodePool/general": {Pool: "general", LimitedBy: v1alpha1.LimitPods},
	} {
		if got := rollout.Expected(v1alpha1.Rollout{Paces: paces, Estimate: e}); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}
