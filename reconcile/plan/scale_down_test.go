package plan_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// TestNodesOfAScaleDown: the nodes that Karpenter terminates because of fewer replicas are named if its choice is
// certain; otherwise those among which it chooses.
func TestNodesOfAScaleDown(t *testing.T) {
	ranked := func(rank plan.DeprovisionRank, costs ...float64) plan.Load {
		d := plan.Deprovision{Rank: rank}
		if len(costs) > 0 {
			d.Now = plan.DisruptionCost{Low: costs[0], High: costs[0]}
			d.Later = plan.DisruptionCost{Low: costs[len(costs)-1], High: costs[len(costs)-1]}
		}
		return plan.Load{Deprovision: &d}
	}
	gated := plan.Load{Deprovision: &plan.Deprovision{Rank: plan.WithPods, Now: plan.DisruptionCost{Low: 1, High: 3}, Later: plan.DisruptionCost{Low: 1, High: 3}}}
	for name, test := range map[string]struct {
		// loads are of the nodes s-0, s-1, …; replicas is how many remain.
		loads    []plan.Load
		replicas string
		given    func(c *drawnCluster)
		// certain and possible are the names, and words part of the warning.
		certain, possible []string
		words             string
	}{
		"empty before others": {
			loads: []plan.Load{ranked(plan.WithPods, 1), ranked(plan.WithoutPods), ranked(plan.WithProtectedPods, 1)}, replicas: "2",
			certain: []string{"s-1"}, words: "replicas 3 to 2: Karpenter terminates 1 node at once, regardless of disruption budgets: s-1",
		},
		"not launched, empty, cheapest": {
			loads: []plan.Load{ranked(plan.WithPods, 2), ranked(plan.WithPods, 1), ranked(plan.WithoutPods), ranked(plan.NotLaunched)}, replicas: "1",
			certain: []string{"s-1", "s-2", "s-3"},
		},
		"protected last, even if it is cheaper": {
			loads: []plan.Load{ranked(plan.WithProtectedPods, 1), ranked(plan.WithPods, 9)}, replicas: "1", certain: []string{"s-1"},
		},
		"equal costs": {
			loads: []plan.Load{ranked(plan.WithPods, 1), ranked(plan.WithPods, 1), ranked(plan.WithPods, 1)}, replicas: "2", possible: []string{"s-0", "s-1", "s-2"},
			words: "terminates 1 node at once, regardless of disruption budgets: 1 of up to 3 nodes between which its choice is not predictable: s-0, s-1, s-2",
		},
		"one certain, and one of two": {
			loads: []plan.Load{ranked(plan.WithPods, 1), ranked(plan.WithPods, 1), ranked(plan.WithoutPods), ranked(plan.WithPods, 2)}, replicas: "2",
			certain: []string{"s-2"}, possible: []string{"s-0", "s-1"},
			words: "terminates 2 nodes at once, regardless of disruption budgets: s-2, and 1 of up to 2 nodes between which its choice is not predictable: s-0, s-1",
		},
		"several empty ones": {
			loads: []plan.Load{ranked(plan.WithoutPods), ranked(plan.WithoutPods), ranked(plan.WithPods, 1)}, replicas: "2", possible: []string{"s-0", "s-1"},
		},
		"all of them":              {loads: []plan.Load{ranked(plan.WithPods, 1), ranked(plan.WithPods, 1)}, replicas: "0", certain: []string{"s-0", "s-1"}},
		"cheaper later":            {loads: []plan.Load{ranked(plan.WithPods, 1, 3), ranked(plan.WithPods, 2, 2)}, replicas: "1", possible: []string{"s-0", "s-1"}},
		"a gate decides":           {loads: []plan.Load{gated, ranked(plan.WithPods, 2)}, replicas: "1", possible: []string{"s-0", "s-1"}},
		"a gate decides nothing":   {loads: []plan.Load{gated, ranked(plan.WithPods, 4)}, replicas: "1", certain: []string{"s-0"}},
		"pods that cannot be read": {loads: []plan.Load{ranked(plan.WithPods, 1), {}}, replicas: "1", words: "regardless of disruption budgets; which ones depends on their pods"},
		"a node that is terminating": {
			loads: []plan.Load{ranked(plan.WithPods, 1), ranked(plan.WithPods, 2)}, replicas: "1", given: func(c *drawnCluster) { c.live.NodeClaims = append(c.live.NodeClaims, claims("s", 3, deleting)[2]) },
			certain: []string{"s-0"}, words: "replicas 2 to 1",
		},
		"a node that is being replaced": {
			loads: []plan.Load{ranked(plan.WithPods, 1), ranked(plan.WithPods, 2)}, replicas: "1", given: func(c *drawnCluster) { c.live.NodeClaims[0].Disrupted = true },
			words: "which ones depends on their pods",
		},
		"as many as before": {loads: []plan.Load{ranked(plan.WithPods, 1), ranked(plan.WithPods, 2)}, replicas: "2"},
	} {
		t.Run(name, func(t *testing.T) {
			of := func(replicas string) string { return pool("s", "default", "replicas: "+replicas) }
			c := newCluster(t)
			c.have(t, owner, class("default"), of(strings.Fields("0 1 2 3 4")[len(test.loads)]))
			c.live.NodeClaims = claims("s", len(test.loads))
			if test.given != nil {
				test.given(c)
			}
			c.limit(100)
			p, _ := c.planWithLoads(t, func(i int) (plan.Load, bool) { return test.loads[i], true }, class("default"), of(test.replicas))
			if len(p.Changes) == 0 {
				if len(test.certain)+len(test.possible)+len(test.words) > 0 {
					t.Fatal("no change")
				}
				return
			}
			change := &p.Changes[0]
			certain, possible := change.ScalesDown()
			if got := namesOf(certain); !slices.Equal(got, test.certain) {
				t.Errorf("certain are %q, want %q", got, test.certain)
			}
			if got := namesOf(possible); !slices.Equal(got, test.possible) {
				t.Errorf("possible are %q, want %q", got, test.possible)
			}
			if words := strings.Join(change.Warnings, "\n"); !strings.Contains(words, test.words) {
				t.Errorf("warnings are %q, want %q", words, test.words)
			}
			if listed := len(p.Document(c.live).Changes[0].NodeClaims); listed != len(test.certain)+len(test.possible) {
				t.Errorf("%d NodeClaims in the document", listed)
			}
			if unread, _ := c.planWithLoads(t, nil, class("default"), of(test.replicas)); unread.Digest != p.Digest {
				t.Error("the digest depends on Karpenter's choice")
			}
			if change.UpTo || change.Nodes != len(test.loads)-int(test.replicas[0]-'0') {
				t.Errorf("%d nodes, up to: %t", change.Nodes, change.UpTo)
			}
		})
	}
}

func namesOf[T ~string](uids []T) []string {
	var found []string
	for _, uid := range uids {
		found = append(found, string(uid))
	}
	return found
}
