package plan_test

import (
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

func priced(name, spec string) string {
	return "apiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\nmetadata: {name: " + name + "}\nspec: {" + spec + "}\n"
}

// TestAnOverlayHasNoEffectThatCounts: it makes no node drift. A note tells how many nodes Karpenter may consolidate
// because other instance types are now cheaper.
func TestAnOverlayHasNoEffectThatCounts(t *testing.T) {
	const cheap, of, fuse = "priceAdjustment: '-10%'", ", requirements: [{key: karpenter.sh/nodepool, operator: In, values: [a]}]", "capacity: {acme.io/fuse: '4'}"
	for name, test := range map[string]struct {
		before, after string
		ignored       bool
		notes         bool
		warns         string
	}{
		"it is new":                   {after: cheap + of, notes: true},
		"it is new, and its gate off": {after: cheap + of, ignored: true},
		"it only adds a resource":     {after: fuse + of},
		"its price changes":           {before: "priceAdjustment: '-5%'" + of, after: cheap + of, notes: true},
		"its weight changes":          {before: cheap + of, after: "weight: 5, " + cheap + of, notes: true},
		"it is removed":               {before: cheap + of, notes: true},
		"it only had a resource":      {before: fuse + of},
		"its pool does not exist":     {after: cheap + strings.Replace(of, "[a]", "[b]", 1), warns: "NodeOverlay/o names NodePool/b, which is neither in this NodeSync's Git nor in the cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.policy.Ignored = map[string]bool{render.NodeOverlay: test.ignored}
			c.have(t, owner, class("default"), pool("a", "default"))
			c.live.NodeClaims = claims("a", 4, func(n *plan.NodeClaim) { n.Initialized = true })
			git := []string{class("default"), pool("a", "default")}
			if test.before != "" {
				c.have(t, owner, priced("o", test.before))
			}
			if test.after != "" {
				git = append(git, priced("o", test.after))
			}
			p := c.plan(t, git...)
			said := strings.Join(p.Warnings, "\n")
			for i := range p.Changes {
				said += strings.Join(append(p.Changes[i].Notes, p.Changes[i].Warnings...), "\n")
				if p.Changes[i].Effect != plan.EffectNone || p.Changes[i].Nodes != 0 {
					t.Errorf("%s of %d nodes", p.Changes[i].Effect, p.Changes[i].Nodes)
				}
			}
			if strings.Contains(said, "it may consolidate up to 4 nodes of NodePool/a within their disruption budgets") != test.notes || !strings.Contains(said, test.warns) {
				t.Errorf("said %q", said)
			}
		})
	}
}
