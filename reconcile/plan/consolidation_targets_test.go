package plan_test

import (
	"strings"
	"testing"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// TestNewPoolsNameTheNodesThatMayMove: Karpenter may consolidate nodes of a NodePool onto one that is new or has a
// higher weight. A note reports how many nodes these are, and they do not count for the guard.
func TestNewPoolsNameTheNodesThatMayMove(t *testing.T) {
	const used, never = "disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 0s}", "disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: Never}"
	const empty = "disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 0s}"
	inTemplate := func(text, fields string) string {
		return strings.Replace(text, "      requirements:", "      "+fields+"\n      requirements:", 1)
	}
	taint := func(text string) string {
		return inTemplate(text, "taints: [{key: dedicated, value: gpu, effect: NoSchedule}]")
	}
	labelled := func(text, team string) string {
		return strings.Replace(text, "  template:", "  template:\n    metadata: {labels: {team: "+team+"}}", 1)
	}
	a := func(more ...string) string { return pool("a", "default", more...) }
	for name, test := range map[string]struct {
		before []string // the existing pools
		after  []string
		given  func(*drawnCluster)
		why    string
		want   int
	}{
		"a new pool":                       {before: []string{a(used)}, after: []string{a(used), pool("b", "default")}, why: "is new", want: 8},
		"a pool that nobody changes":       {before: []string{a(used), pool("b", "default")}, after: []string{a(used), pool("b", "default")}},
		"a higher weight":                  {before: []string{a(used), pool("b", "default")}, after: []string{a(used), pool("b", "default", "weight: 10")}, why: "has a higher weight", want: 8},
		"a lower weight":                   {before: []string{a(used), pool("b", "default", "weight: 10")}, after: []string{a(used), pool("b", "default")}},
		"its own weight":                   {before: []string{a(used)}, after: []string{a(used, "weight: 10")}},
		"no consolidation":                 {before: []string{a(never)}, after: []string{a(never), pool("b", "default")}},
		"consolidation of empty nodes":     {before: []string{a(empty)}, after: []string{a(empty), pool("b", "default")}},
		"some are terminating":             {before: []string{a(used)}, after: []string{a(used), pool("b", "default")}, given: func(c *drawnCluster) { disrupted(&c.live.NodeClaims[0]) }, why: "is new", want: 7},
		"a taint":                          {before: []string{a(used)}, after: []string{a(used), taint(pool("b", "default"))}},
		"the taint of both":                {before: []string{taint(a(used))}, after: []string{taint(a(used)), taint(pool("b", "default"))}, why: "is new", want: 8},
		"a preference":                     {before: []string{a(used)}, after: []string{a(used), inTemplate(pool("b", "default"), "taints: [{key: dedicated, effect: PreferNoSchedule}]")}, why: "is new", want: 8},
		"other requirements":               {before: []string{a(used)}, after: []string{a(used), strings.Replace(pool("b", "default"), "[spot]", "[on-demand]", 1)}},
		"other labels":                     {before: []string{labelled(a(used), "data")}, after: []string{labelled(a(used), "data"), labelled(pool("b", "default"), "web")}},
		"a static pool":                    {before: []string{a(used)}, after: []string{a(used), pool("b", "default", "replicas: 2")}},
		"the other one is removed":         {before: []string{a(used)}, after: []string{pool("b", "default")}},
		"a disruption budget that is shut": {before: []string{a(`disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 0s, budgets: [{nodes: "0"}]}`)}, after: []string{a(`disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 0s, budgets: [{nodes: "0"}]}`), pool("b", "default")}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.policy.Now = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
			c.limit(1)
			c.have(t, owner, append([]string{class("default")}, test.before...)...)
			c.live.NodeClaims = claims("a", 8, func(n *plan.NodeClaim) { n.Initialized = true })
			if test.given != nil {
				test.given(c)
			}
			p := c.plan(t, append([]string{class("default")}, test.after...)...)
			var notes []string
			for i := range p.Changes {
				for _, note := range p.Changes[i].Notes {
					if strings.Contains(note, "consolidate") {
						notes = append(notes, note)
					}
				}
				if p.Changes[i].Action == plan.Hold {
					t.Errorf("%s is held: %s", p.Changes[i].Ref, p.Changes[i].Message)
				}
			}
			if test.want == 0 {
				if len(notes) > 0 {
					t.Errorf("notes: %q", notes)
				}
				return
			}
			want := "NodePool/b " + test.why + ": Karpenter may consolidate up to " + english.Plural(test.want, "node", "") + " of NodePool/a onto it"
			if len(notes) != 1 || !strings.HasPrefix(notes[0], want) {
				t.Errorf("notes: %q, want %q", notes, want)
			}
		})
	}
}
