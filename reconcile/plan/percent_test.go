package plan_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// TestNodesThatACommitAddsRaiseNoLimit: a percentage is of the NodeClaims without those that a new NodePool, or more replicas of a
// static one, have added within guard.removalPeriod.
func TestNodesThatACommitAddsRaiseNoLimit(t *testing.T) {
	const old, young = 24 * time.Hour, time.Minute
	for name, test := range map[string]struct {
		// pools and static are the ages of the NodePools a and b with their 8 nodes each, and of the static NodePool s; nodes
		// are those of the 400 nodes of s.
		pools, static, nodes time.Duration
		// recorded is when the removal of a was recorded; 0 if it is new.
		recorded time.Duration
		given    func(*cluster)
		// limit is that of what is held; 0 if nothing is.
		limit int
		says  string
	}{
		"a static pool is added":                            {pools: old, static: young, nodes: young, limit: 4, says: "25% of 16 nodes without 400 that earlier commits within guard.removalPeriod may have added"},
		"a static pool has more replicas":                   {pools: old, static: old, nodes: young, limit: 4},
		"it has had them for the period":                    {pools: old, static: old, nodes: 31 * time.Minute},
		"all pools are new":                                 {pools: young, static: young, nodes: young},
		"nodes of a pool that is not static":                {pools: old, static: young, nodes: old},
		"held before, and the period has passed":            {pools: old, static: 40 * time.Minute, nodes: 40 * time.Minute, recorded: 35 * time.Minute, limit: 4},
		"a removal that was recorded long after":            {pools: old, static: 80 * time.Minute, nodes: 80 * time.Minute, recorded: 35 * time.Minute},
		"commits do not count together":                     {pools: old, static: young, nodes: young, given: func(c *cluster) { c.policy.Guard.RemovalPeriod = &metav1.Duration{} }},
		"a number":                                          {pools: old, static: young, nodes: young, given: func(c *cluster) { c.limit(7) }, limit: 7},
		"the limit of one pool, which is static":            {pools: old, static: old, nodes: young, given: perPool, limit: 3},
		"the limit of one pool, all of whose nodes are new": {pools: old, static: young, nodes: young, given: perPool, limit: 200},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.policy.Now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
			c.have(t, owner, class("default"))
			for name, age := range map[string]time.Duration{"a": test.pools, "b": test.pools, "s": test.static} {
				text, nodes, created := pool(name, "default"), 8, test.pools
				if name == "s" {
					text, nodes, created = pool(name, "default", "replicas: 400"), 400, test.nodes
				}
				c.have(t, owner, text)
				c.Edit(t, poolRef(name), "test", func(o *unstructured.Unstructured) { o.SetCreationTimestamp(c.ago(age)) })
				c.live.NodeClaims = append(c.live.NodeClaims, claims(name, nodes, func(n *plan.NodeClaim) { n.Created = c.ago(created).Time })...)
			}
			if test.recorded > 0 {
				c.recorded("a", v1alpha1.RemovalHeld, "r1", test.recorded)
			}
			git := []string{class("default"), pool("b", "default"), pool("s", "default", "replicas: 400")}
			if test.given != nil {
				test.given(c)
			}
			if c.policy.Guard.MaxDisruptedNodesPerPool != nil {
				git = []string{class("default"), pool("a", "default"), pool("b", "default"), pool("s", "default", "replicas: 199")}
			}
			p := c.plan(t, git...)
			var held []string
			for _, r := range p.Removals {
				held = append(held, r.Message)
			}
			for _, change := range p.Changes {
				held = append(held, change.Message)
			}
			want := ""
			if test.limit > 0 {
				want = fmt.Sprintf(" allows %d: ", test.limit)
			}
			if got := strings.Join(held, "; "); (p.Approvable != nil) != (test.limit > 0) || !strings.Contains(got, want) || !strings.Contains(got, test.says) {
				t.Errorf("it says %q, want %q and %q", got, want, test.says)
			}
		})
	}
}

// perPool limits what is disrupted of one pool only.
func perPool(c *cluster) {
	c.limit(1000)
	c.policy.Guard.MaxDisruptedNodesPerPool = ptr.To(intstr.FromString("50%"))
}
