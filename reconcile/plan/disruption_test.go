package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// claims returns n NodeClaims of a pool.
func claims(pool string, n int, change ...func(*plan.NodeClaim)) []plan.NodeClaim {
	var found []plan.NodeClaim
	for i := range n {
		name := fmt.Sprintf("%s-%d", pool, i)
		c := plan.NodeClaim{Name: name, UID: types.UID(name), Pool: pool, Class: "default"}
		for _, f := range change {
			f(&c)
		}
		found = append(found, c)
	}
	return found
}

func deleting(c *plan.NodeClaim)  { c.Deleting = true }
func drifted(c *plan.NodeClaim)   { c.Drifted = true }
func disrupted(c *plan.NodeClaim) { c.Deleting, c.Disrupted = true, true }

func tainted(name string, more ...string) string {
	return strings.Replace(pool(name, "default", more...), "      requirements:", "      taints: [{key: a, effect: NoSchedule}]\n      requirements:", 1)
}

func withGrace(name, grace string) string {
	return strings.Replace(pool(name, "default"), "      requirements:", "      terminationGracePeriod: "+grace+"\n      requirements:", 1)
}

func withBudget(name, nodes string) string {
	return pool(name, "default", "disruption: {consolidateAfter: 0s, budgets: [{nodes: \""+nodes+"\"}]}")
}

// TestGuardOfNodes: a plan disrupts no more nodes than the guard allows, including those that are terminating; changes
// of one commit are held together.
func TestGuardOfNodes(t *testing.T) {
	limit := func(v intstr.IntOrString) func(*drawnCluster) {
		return func(c *drawnCluster) { c.policy.Guard.MaxDisruptedNodes = &v }
	}
	two := int32(2)
	tests := map[string]struct {
		// nodes of the pools a, b and c, which are in Git unless they are missing from git.
		nodes []plan.NodeClaim
		git   []string
		given func(*drawnCluster)
		want  []string
	}{
		"a removal within the limit": {
			nodes: claims("a", 3), git: []string{pool("b", "default"), pool("c", "default")},
			want: []string{"Remove NodePool/a"},
		},
		"a removal beyond it": {
			nodes: claims("a", 4), git: []string{pool("b", "default"), pool("c", "default")},
			want: []string{"Hold NodePool/a MaxDisruptedNodes"},
		},
		"a quarter of many": {
			nodes: slices.Concat(claims("a", 5), claims("b", 15)), git: []string{pool("b", "default"), pool("c", "default")},
			want: []string{"Remove NodePool/a"},
		},
		"a number is as written": {
			nodes: claims("a", 2), git: []string{pool("b", "default"), pool("c", "default")}, given: limit(intstr.FromInt32(1)),
			want: []string{"Hold NodePool/a MaxDisruptedNodes"},
		},
		"all, by a percentage": {
			nodes: claims("a", 9), git: []string{pool("b", "default"), pool("c", "default")}, given: limit(intstr.FromString("100%")),
			want: []string{"Remove NodePool/a"},
		},
		"a replacement beyond it, and what is beside it goes ahead": {
			nodes: claims("a", 4), git: []string{tainted("a"), pool("b", "default", "weight: 7"), pool("c", "default")},
			want: []string{"Hold NodePool/a MaxDisruptedNodes spec.template.spec.taints:→[{\"effect\":\"NoSchedule\",\"key\":\"a\"}] replaces 4", "Update NodePool/b Differs spec.weight:→7"},
		},
		"a removal and a replacement of one commit": {
			nodes: slices.Concat(claims("a", 2), claims("b", 2)), git: []string{tainted("a"), pool("c", "default")},
			want: []string{
				"Hold NodePool/a MaxDisruptedNodes spec.template.spec.taints:→[{\"effect\":\"NoSchedule\",\"key\":\"a\"}] replaces 2",
				"Hold NodePool/b MaxDisruptedNodes",
			},
		},
		"nodes that end already": {
			nodes: slices.Concat(claims("a", 2), claims("b", 2, disrupted)), git: []string{pool("b", "default"), pool("c", "default")},
			want: []string{"Hold NodePool/a MaxDisruptedNodes"},
		},
		"a removal that has begun": {
			nodes: slices.Concat(claims("a", 2), claims("b", 2)), git: []string{pool("c", "default")},
			given: func(c *drawnCluster) {
				c.policy.Guard.MaxRemovedPools = &two
				c.removal(poolRef("b"), v1alpha1.RemovalDraining, "r1")
			},
			want: []string{"Hold NodePool/a MaxDisruptedNodes"},
		},
		"one that was recorded is weighed again": {
			nodes: claims("a", 2), git: []string{pool("b", "default"), pool("c", "default")},
			given: func(c *drawnCluster) {
				limit(intstr.FromInt32(1))(c)
				c.removal(poolRef("a"), v1alpha1.RemovalPacing, "r1")
			},
			want: []string{"Hold NodePool/a MaxDisruptedNodes"},
		},
		"one that is held for another reason disrupts nothing": {
			nodes: slices.Concat(claims("a", 3), claims("b", 3)), git: []string{tainted("c"), pool("b", "default")},
			given: func(c *drawnCluster) {
				c.live.NodeClaims = append(c.live.NodeClaims, claims("c", 3)...)
				none := int32(0)
				c.policy.Guard.MaxRemovedPools = &none
			},
			want: []string{"Update NodePool/c Differs spec.template.spec.taints:→[{\"effect\":\"NoSchedule\",\"key\":\"a\"}] replaces 3", "Hold NodePool/a MaxRemovedPools"},
		},
		"an edit by hand is taken back, however many nodes that is": {
			nodes: claims("a", 9), git: []string{tainted("a"), pool("b", "default"), pool("c", "default")},
			given: func(c *drawnCluster) { c.policy.NewRevision = false },
			want:  []string{"Update NodePool/a Differs spec.template.spec.taints:→[{\"effect\":\"NoSchedule\",\"key\":\"a\"}] replaces 9"},
		},
		"a revert is never held": {
			nodes: claims("a", 9), git: []string{pool("a", "default"), pool("b", "default"), pool("c", "default")},
			given: func(c *drawnCluster) { c.removal(poolRef("a"), v1alpha1.RemovalDraining, "r1") },
			want:  []string{"TakeBack NodePool/a Returned", "Returned NodePool/a"},
		},
		"what comes back changed is weighed": {
			nodes: claims("a", 9), git: []string{tainted("a"), pool("b", "default"), pool("c", "default")},
			given: func(c *drawnCluster) { c.removal(poolRef("a"), v1alpha1.RemovalDraining, "r1") },
			want:  []string{"Hold NodePool/a MaxDisruptedNodes spec.template.spec.taints:→[{\"effect\":\"NoSchedule\",\"key\":\"a\"}] replaces 9", "Returned NodePool/a"},
		},
		"a grace period that overrides budgets of pods": {
			nodes: claims("a", 4), git: []string{withGrace("a", "1s"), pool("b", "default"), pool("c", "default")},
			want: []string{"Hold NodePool/a MaxDisruptedNodes spec.template.spec.terminationGracePeriod:→1s replaces 4"},
		},
		"budgets that free nodes which have drifted": {
			nodes: slices.Concat(claims("a", 4, drifted), claims("b", 4)), git: []string{withBudget("a", "100%"), pool("b", "default"), pool("c", "default")},
			want: []string{`Hold NodePool/a MaxDisruptedNodes spec.disruption.budgets[0].nodes:10%→100% replaces 4`},
		},
		"budgets that free some of them": {
			nodes: slices.Concat(claims("a", 4, drifted), claims("b", 4)), git: []string{withBudget("a", "50%"), pool("b", "default"), pool("c", "default")},
			want: []string{`Update NodePool/a Differs spec.disruption.budgets[0].nodes:10%→50% replaces 2`},
		},
		"budgets that let Karpenter consolidate more": {
			nodes: slices.Concat(claims("a", 4), claims("b", 4)), git: []string{withBudget("a", "100%"), pool("b", "default"), pool("c", "default")},
			want: []string{`Hold NodePool/a MaxDisruptedNodes spec.disruption.budgets[0].nodes:10%→100% consolidates up to 4`},
		},
		"narrower budgets": {
			nodes: claims("a", 4, drifted), git: []string{withBudget("a", "0"), pool("b", "default"), pool("c", "default")},
			want: []string{`Update NodePool/a Differs spec.disruption.budgets[0].nodes:10%→0`},
		},
		"nothing is weighed where the NodeSync is deleted": {
			nodes: claims("a", 9), given: func(c *drawnCluster) { c.policy.Deleting = true },
			want: []string{"Remove NodePool/a", "Remove NodePool/b", "Remove NodePool/c", "Remove EC2NodeClass/default"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.have(t, owner, class("default"), pool("a", "default"), pool("b", "default"), pool("c", "default"))
			c.live.NodeClaims = test.nodes
			if test.given != nil {
				test.given(c)
			}
			if diff := cmp.Diff(test.want, script(c.plan(t, append([]string{class("default")}, test.git...)...))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFlappingCommitsDrainOnePool: a pool that is in Git again, and whose nodes are all terminating, counts as being
// removed.
func TestFlappingCommitsDrainOnePool(t *testing.T) {
	for name, test := range map[string]struct {
		nodes []plan.NodeClaim
		want  []string
	}{
		"all of its nodes were ended":     {claims("b", 1, deleting), []string{"Hold NodePool/a MaxRemovedPools"}},
		"Karpenter has consolidated them": {claims("b", 1, disrupted), []string{"Remove NodePool/a"}},
		"one runs":                        {append(claims("b", 1, deleting), claims("b", 1)...), []string{"Remove NodePool/a"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.have(t, owner, class("default"), pool("a", "default"), pool("b", "default"))
			c.live.NodeClaims = append(test.nodes, claims("a", 1)...)
			if diff := cmp.Diff(test.want, script(c.plan(t, class("default"), pool("b", "default")))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOneThatHasEndedNoNodeIsWeighedAgain: a removal that has terminated no node is checked at each reconcile, and a
// lower limit holds it.
func TestOneThatHasEndedNoNodeIsWeighedAgain(t *testing.T) {
	for _, phase := range []v1alpha1.RemovalPhase{v1alpha1.RemovalPacing, v1alpha1.RemovalDraining} {
		c := newCluster(t)
		c.have(t, owner, class("default"), pool("a", "default"), pool("b", "default"))
		c.removal(poolRef("a"), phase, "r1")
		limit := int32(0)
		c.policy.Guard.MaxRemovedPools = &limit
		want := []string{"Hold NodePool/a MaxRemovedPools"}
		if phase == v1alpha1.RemovalDraining {
			want = []string{}
		}
		if diff := cmp.Diff(want, script(c.plan(t, class("default"), pool("b", "default")))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", phase, diff)
		}
	}
}

// TestAReplacementOfWhatHostsTheControllerIsHeld: a change that replaces nodes of Karpenter's controller, or their
// class, is held, however few nodes; other changes proceed.
func TestAReplacementOfWhatHostsTheControllerIsHeld(t *testing.T) {
	for name, test := range map[string]struct {
		git  []string
		want []string
	}{
		"its own":          {[]string{class("default"), tainted("a")}, []string{"Hold NodePool/a HostsController spec.template.spec.taints:→[{\"effect\":\"NoSchedule\",\"key\":\"a\"}] replaces 1"}},
		"by its class":     {[]string{class("default", "userData: hello"), pool("a", "default")}, []string{"Hold EC2NodeClass/default HostsController spec.userData:→hello replaces 1"}},
		"it disrupts none": {[]string{class("default"), pool("a", "default", "weight: 7")}, []string{"Update NodePool/a Differs spec.weight:→7"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.have(t, owner, class("default"), pool("a", "default"))
			c.live.NodeClaims = claims("a", 1)
			c.policy.Hosts = []plan.Host{{NodePool: "a", Node: "n1", Workload: "Karpenter's controller", Pod: "kube-system/karpenter-1"}}
			if diff := cmp.Diff(test.want, script(c.plan(t, test.git...))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWhatIsEditedWhileHeldIsNamed: nothing of a held definition is written, so an edit by hand is not corrected
// either, and the message reports it.
func TestWhatIsEditedWhileHeldIsNamed(t *testing.T) {
	c := newCluster(t)
	c.have(t, owner, class("default"), pool("a", "default"))
	c.edit(t, poolRef("a"), "kubectl-edit", int64(7), "spec", "weight")
	c.live.NodeClaims = claims("a", 4)
	p := c.plan(t, class("default"), tainted("a"))
	want := "; until then the edits by kubectl-edit to NodePool/a are not reverted"
	if len(p.Changes) != 1 || !strings.HasSuffix(p.Changes[0].Message, want) {
		t.Errorf("%+v", p.Changes)
	}
}

func TestWhatIsHeldForItsNodesSaysWhatReleasesIt(t *testing.T) {
	c := newCluster(t)
	c.have(t, owner, class("default"), pool("a", "default"), pool("b", "default"))
	c.live.NodeClaims = slices.Concat(claims("a", 4), claims("b", 4))
	p := c.plan(t, class("default"), tainted("a"), pool("b", "default"))
	want := "4 nodes would be disrupted, but guard.maxDisruptedNodes allows 3: set it to 4 (it is 25% of 8 nodes, at least 3; replacements count in total because spec.rollout.onFailure is Report), or change less in one commit: NodePool/a (4)"
	if len(p.Changes) != 1 || p.Changes[0].Message != want {
		t.Errorf("%+v", p.Changes)
	}
}

// TestNodesThatACommitAddsRaiseNoLimit: the base of a percentage excludes NodeClaims that a new NodePool, or more
// replicas of a static one, added within guard.removalPeriod.
func TestNodesThatACommitAddsRaiseNoLimit(t *testing.T) {
	const old, young = 24 * time.Hour, time.Minute
	for name, test := range map[string]struct {
		// pools and static are the ages of the NodePools a and b with their 8 nodes each, and of the static NodePool s;
		// nodes is the age of the 400 nodes of s.
		pools, static, nodes time.Duration
		// recorded is when the removal of a was recorded; 0 if it is new.
		recorded time.Duration
		given    func(*drawnCluster)
		// limit is the limit in the message if something is held; 0 otherwise.
		limit int
		says  string
	}{
		"a static pool is added":                            {pools: old, static: young, nodes: young, limit: 4, says: "25% of 16 nodes, not counting 400 that earlier commits within guard.removalPeriod may have added"},
		"a static pool has more replicas":                   {pools: old, static: old, nodes: young, limit: 4},
		"it has had them for the period":                    {pools: old, static: old, nodes: 31 * time.Minute},
		"all pools are new":                                 {pools: young, static: young, nodes: young},
		"nodes of a pool that is not static":                {pools: old, static: young, nodes: old},
		"held before, and the period has passed":            {pools: old, static: 40 * time.Minute, nodes: 40 * time.Minute, recorded: 35 * time.Minute, limit: 4},
		"a removal that was recorded long after":            {pools: old, static: 80 * time.Minute, nodes: 80 * time.Minute, recorded: 35 * time.Minute},
		"commits do not count together":                     {pools: old, static: young, nodes: young, given: func(c *drawnCluster) { c.policy.Guard.RemovalPeriod = &metav1.Duration{} }},
		"a number":                                          {pools: old, static: young, nodes: young, given: func(c *drawnCluster) { c.limit(7) }, limit: 7},
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

// perPool limits only what is disrupted of one pool.
func perPool(c *drawnCluster) {
	c.limit(1000)
	c.policy.Guard.MaxDisruptedNodesPerPool = ptr.To(intstr.FromString("50%"))
}
