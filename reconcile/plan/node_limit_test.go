package plan_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestNodeLimits: a static pool whose limits.nodes are not above its replicas has no room for a replacement.
func TestNodeLimits(t *testing.T) {
	const one = `disruption: {consolidateAfter: 0s, budgets: [{nodes: "1"}]}`
	static := func(more ...string) string { return pool("s", "default", append(more, one)...) }
	changed := func(more ...string) string { return tainted("s", append(more, one)...) }
	const (
		stuck = "NodePool/s: limits.nodes 3 leaves no room to replace one of its 3 replicas: Karpenter replaces none of 3 outdated nodes: set it to at least 4, or enable feature gate TerminateFirstDrift (Karpenter 1.15)"
		first = "NodePool/s: limits.nodes 3 leaves no room to replace one of its 3 replicas: Karpenter terminates up to 1 of 3 outdated nodes at a time before it launches their replacements (feature gate TerminateFirstDrift), so the pool has fewer nodes than replicas until then"
		later = "NodePool/s: limits.nodes 3 leaves no room to replace one of its 3 replicas: Karpenter replaces no outdated node: set it to at least 4, or enable feature gate TerminateFirstDrift (Karpenter 1.15)"
	)
	for name, c := range map[string]struct {
		before, after string
		// off and on are the words without and with the feature gate; empty if there is room.
		off, on string
		class   bool
	}{
		"a template":          {before: static("replicas: 3", "limits: {nodes: 3}"), after: changed("replicas: 3", "limits: {nodes: 3}"), off: stuck, on: first},
		"a class":             {before: static("replicas: 3", "limits: {nodes: 3}"), after: static("replicas: 3", "limits: {nodes: 3}"), off: stuck, on: first, class: true},
		"a lower limit":       {before: static("replicas: 3"), after: static("replicas: 3", "limits: {nodes: 3}"), off: later, on: "NodePool/s: limits.nodes 3 leaves no room to replace one of its 3 replicas: Karpenter terminates an outdated node before it launches the replacement (feature gate TerminateFirstDrift)"},
		"room for one":        {before: static("replicas: 3", "limits: {nodes: 4}"), after: changed("replicas: 3", "limits: {nodes: 4}")},
		"no limit":            {before: static("replicas: 3"), after: changed("replicas: 3")},
		"the limit is raised": {before: static("replicas: 3", "limits: {nodes: 3}"), after: changed("replicas: 3", "limits: {nodes: 4}")},
		"not static":          {before: static("limits: {nodes: 3}"), after: changed("limits: {nodes: 3}")},
		"no replica":          {before: static("replicas: 0", "limits: {nodes: 0}"), after: changed("replicas: 0", "limits: {nodes: 0}")},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newCluster(t)
			all := intstr.FromString("100%")
			cluster.policy.Guard.MaxDisruptedNodes = &all
			cluster.have(t, owner, c.before, class("default"))
			cluster.live.NodeClaims = claims("s", 3)
			of := class("default")
			if c.class {
				of = class("default", "userData: hello")
			}
			p := cluster.plan(t, c.after, of)
			live := plan.Live{Objects: map[render.Ref]*plan.Object{poolRef("s"): plan.NewObject(cluster.Object(poolRef("s")))}, NodeClaims: cluster.live.NodeClaims}
			limits := plan.NodeLimits(p.Changes, live, time.Now())
			off, on := "", ""
			for _, limit := range limits {
				off, on = off+limit.Words(false), on+limit.Words(true)
			}
			if diff := cmp.Diff([]string{c.off, c.on}, []string{off, on}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, pace := range plan.Paces(p.Changes, live, plan.Unlaunchable(nil, limits), time.Now()) {
				if (pace.Rounds() == 0) != (c.off != "") {
					t.Errorf("%d rounds: %s", pace.Rounds(), pace.Words(time.Now()))
				}
			}
		})
	}
}
