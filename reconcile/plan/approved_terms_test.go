package plan_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// TestApprovedOnTheTermsThatWereShown: an approval includes the guard, policies and charts at that time, and where the
// nodes of a pool move to; if any of these changes, people must approve again.
func TestApprovedOnTheTermsThatWereShown(t *testing.T) {
	for name, test := range map[string]struct {
		// then changes the state after the approval, and git is the content of Git by then.
		then func(*drawnCluster)
		git  []string
		b, c bool
	}{
		"the same":                 {b: true, c: true},
		"b moves nowhere any more": {git: []string{class("default"), pool("a", "default")}, c: true},
		"another limit":            {then: func(c *drawnCluster) { c.policy.Guard.AllowLastPool = true }},
		"one policy more": {then: func(c *drawnCluster) {
			c.policy.Policies = []v1alpha1.Policy{{Name: "p", Expression: "removal.name != 'z'", Action: v1alpha1.PolicyHold}}
		}},
		"another Karpenter": {then: func(c *drawnCluster) { c.policy.Karpenter = &render.Karpenter{Version: "1.15.0"} }},
		"another file of values": {then: func(c *drawnCluster) {
			c.policy.FileValues = []map[string]any{{"replicas": 1}}
		}},
		"another file without values": {then: func(c *drawnCluster) {
			c.policy.Karpenter.ValuesFiles = []string{"values.yaml"}
			c.policy.FileValues = []map[string]any{{}}
		}, b: true, c: true},
		"another file of the charts":   {then: func(c *drawnCluster) { c.inputs["prod/charts/karpenter/values.yaml"] = "2" }},
		"another file of the nodes":    {then: func(c *drawnCluster) { c.inputs["prod/nodes/pool.yaml"] = "2" }, b: true, c: true},
		"recorded by an older version": {then: func(c *drawnCluster) { c.policy.Approved[0].WeighedBy = "" }},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.have(t, owner, class("default"), pool("a", "default"), pool("b", "default"), strings.Replace(pool("c", "default"), "spot", "on-demand", 1))
			git := []string{class("default"), pool("a", "default"), pool("b2", "default")}
			c.policy.Karpenter, c.policy.ConfigFile = &render.Karpenter{Version: "1.14.1", Repository: "./charts"}, "prod/plumbline.yaml"
			c.inputs = render.Inputs{"prod/charts/karpenter/values.yaml": "1", "prod/nodes/pool.yaml": "1"}
			held := c.plan(t, git...)
			approve(c, held)
			left := func() int { return len(c.plan(t, git...).LeftOf(c.policy.Approved)) }
			if test.then != nil {
				test.then(c)
			}
			if test.git != nil {
				git = test.git
			}
			goes := map[string]bool{}
			for _, r := range c.plan(t, git...).Removals {
				goes[r.Ref.Name] = !r.Held
			}
			if diff := cmp.Diff(map[string]bool{"b": test.b, "c": test.c}, goes); diff != "" {
				t.Errorf("goes (-want +got):\n%s", diff)
			}
			if still := left() > 0; still != (test.b || test.c) {
				t.Errorf("recorded as approved: %v", still)
			}
		})
	}
}
