package plan_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// TestWindows: when the disruption budgets of a pool of ten nodes allow a replacement, by Karpenter's
// own reading.
func TestWindows(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 30, 0, 0, time.UTC) // a Tuesday
	at := func(day, hour, minute int) time.Time { return time.Date(2026, 11, day, hour, minute, 0, 0, time.UTC) }
	for name, test := range map[string]struct {
		budgets string
		first   []plan.Window
		count   int
		words   string
	}{
		"always":            {budgets: `[{nodes: "10%"}]`},
		"never":             {budgets: `[{nodes: "0"}]`},
		"wider for a time":  {budgets: `[{nodes: "2", schedule: "0 9 * * *", duration: 8h}, {nodes: "3"}]`},
		"a day in a week":   {budgets: `[{nodes: "0", schedule: "0 0 * * 0-5", duration: 24h}, {nodes: "3"}]`, first: []plan.Window{{at(28, 0, 0), at(29, 0, 0), 3}}, count: 4, words: "NodePool/a: 4 windows in 30 days, 96h in all: Sat 28 Nov 00:00 UTC to Sun 29 Nov 00:00 UTC (up to 3 at a time); Sat 5 Dec 00:00 UTC to Sun 6 Dec 00:00 UTC (up to 3 at a time); Sat 12 Dec 00:00 UTC to Sun 13 Dec 00:00 UTC (up to 3 at a time) and 1 more"},
		"open now":          {budgets: `[{nodes: "0", schedule: "0 13 * * *", duration: 23h}]`, count: 31},
		"two overlap":       {budgets: `[{nodes: "0", schedule: "0 13 * * 2", duration: 10h}, {nodes: "0", schedule: "0 20 * * 2", duration: 160h}, {nodes: "5"}]`, first: []plan.Window{{now, at(24, 13, 0), 5}}, count: 5},
		"each minute":       {budgets: `[{nodes: "0", schedule: "* * * * *", duration: 1m}]`},
		"for other reasons": {budgets: `[{nodes: "0", reasons: [Empty], schedule: "0 9 * * *", duration: 8h}]`},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.have(t, owner, class("default"), pool("a", "default", "disruption: {consolidateAfter: 0s, budgets: "+test.budgets+"}"))
			found := plan.Windows(plan.NewObject(c.Object(poolRef("a"))), 10, now)
			if len(found) != test.count {
				t.Fatalf("%d windows, want %d: %v", len(found), test.count, found)
			}
			if diff := cmp.Diff(test.first, found[:len(test.first)]); len(test.first) > 0 && diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if words := (plan.PoolPace{Pool: "a", Windows: found}).WindowWords(now); test.words != "" && words != test.words {
				t.Errorf("%s\nwant %s", words, test.words)
			}
			for _, w := range found {
				for moment, open := range map[time.Time]bool{w.From: true, w.To.Add(-time.Second): true, w.To: w.To.Equal(now.Add(30 * 24 * time.Hour))} {
					allowed := plan.AllowedDisruptions(plan.NewObject(c.Object(poolRef("a"))), 10, moment)
					if open != (allowed.Now > 0) {
						t.Errorf("%s: Karpenter allows %d", moment, allowed.Now)
					}
				}
			}
		})
	}
}
