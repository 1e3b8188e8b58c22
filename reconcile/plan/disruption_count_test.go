package plan_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// limits lets all nodes of the NodeSync be disrupted at a time, and this many of a NodePool.
func limits(c *drawnCluster, perPool intstr.IntOrString) {
	all := intstr.FromString("100%")
	c.policy.Guard.MaxDisruptedNodes, c.policy.Guard.MaxDisruptedNodesPerPool = &all, &perPool
}

// TestGuardOfNodesOfOnePool: a plan disrupts no more nodes of a NodePool than the guard allows, including those that
// are terminating; changes of other pools proceed.
func TestGuardOfNodesOfOnePool(t *testing.T) {
	const taints = ` spec.template.spec.taints:→[{"effect":"NoSchedule","key":"a"}] replaces `
	half, two := intstr.FromString("50%"), intstr.FromInt32(2)
	for name, test := range map[string]struct {
		limit intstr.IntOrString
		nodes []plan.NodeClaim
		// class and git are the content of Git.
		class string
		git   []string
		given func(*drawnCluster)
		want  []string
	}{
		"a replacement within it": {
			limit: two, nodes: slices.Concat(claims("a", 2), claims("b", 2)), git: []string{tainted("a"), tainted("b"), pool("c", "default")},
			want: []string{"Update NodePool/a Differs" + taints + "2", "Update NodePool/b Differs" + taints + "2"},
		},
		"a replacement beyond it, and another pool's goes ahead": {
			limit: two, nodes: slices.Concat(claims("a", 3), claims("b", 2)), git: []string{tainted("a"), tainted("b"), pool("c", "default")},
			want: []string{"Hold NodePool/a MaxDisruptedNodesPerPool" + taints + "3", "Update NodePool/b Differs" + taints + "2"},
		},
		"half of a few is three": {
			limit: half, nodes: claims("a", 3), git: []string{tainted("a"), pool("b", "default"), pool("c", "default")},
			want: []string{"Update NodePool/a Differs" + taints + "3"},
		},
		"a percentage is of the pool": {
			limit: half, nodes: slices.Concat(claims("a", 4), claims("b", 40)), git: []string{tainted("a"), pool("b", "default"), pool("c", "default")},
			want: []string{"Hold NodePool/a MaxDisruptedNodesPerPool" + taints + "4"},
		},
		"a removal": {
			limit: half, nodes: slices.Concat(claims("a", 4), claims("b", 40)), git: []string{pool("b", "default"), pool("c", "default")},
			want: []string{"Hold NodePool/a MaxDisruptedNodesPerPool"},
		},
		"one that has begun goes on": {
			limit: two, nodes: claims("a", 4), git: []string{pool("b", "default"), pool("c", "default")},
			given: func(c *drawnCluster) { c.removal(poolRef("a"), v1alpha1.RemovalDraining, "r1") },
			want:  []string{},
		},
		"nodes of it that end already": {
			limit: two, nodes: slices.Concat(claims("a", 1), claims("b", 2)), git: []string{tainted("a"), tainted("b"), pool("c", "default")},
			given: func(c *drawnCluster) {
				for i, ending := range claims("ending", 3, disrupted) {
					ending.Pool = []string{"a", "a", "c"}[i]
					c.live.NodeClaims = append(c.live.NodeClaims, ending)
				}
			},
			want: []string{"Hold NodePool/a MaxDisruptedNodesPerPool" + taints + "3", "Update NodePool/b Differs" + taints + "2"},
		},
		"a class counts with each of its pools, and is held with the first": {
			limit: two, nodes: slices.Concat(claims("a", 3), claims("b", 1)), class: class("default", "userData: hello"),
			git:  []string{pool("a", "default", "weight: 7"), tainted("b"), pool("c", "default")},
			want: []string{"Hold EC2NodeClass/default MaxDisruptedNodesPerPool spec.userData:→hello replaces 4", "Update NodePool/a Differs spec.weight:→7", "Update NodePool/b Differs" + taints + "1"},
		},
		"fewer replicas, of nodes that nobody knows": {
			limit: two, nodes: claims("s", 4), git: []string{pool("a", "default"), pool("b", "default"), pool("c", "default"), pool("s", "default", "replicas: 1")},
			want: []string{"Hold NodePool/s MaxDisruptedNodesPerPool spec.replicas:4→1 drains 3"},
		},
		"all pools together are weighed first": {
			limit: two, nodes: slices.Concat(claims("a", 3), claims("b", 1)), git: []string{tainted("a"), tainted("b"), pool("c", "default")},
			given: func(c *drawnCluster) { one := intstr.FromInt32(1); c.policy.Guard.MaxDisruptedNodes = &one },
			want:  []string{"Hold NodePool/a MaxDisruptedNodes" + taints + "3", "Hold NodePool/b MaxDisruptedNodes" + taints + "1"},
		},
		"an edit by hand is taken back": {
			limit: two, nodes: claims("a", 9), git: []string{tainted("a"), pool("b", "default"), pool("c", "default")},
			given: func(c *drawnCluster) { c.policy.NewRevision = false },
			want:  []string{"Update NodePool/a Differs" + taints + "9"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.have(t, owner, class("default"), pool("a", "default"), pool("b", "default"), pool("c", "default"))
			git := append([]string{class("default")}, test.git...)
			if test.class != "" {
				git[0] = test.class
			}
			if slices.ContainsFunc(test.nodes, func(n plan.NodeClaim) bool { return n.Pool == "s" }) {
				c.have(t, owner, pool("s", "default", "replicas: 4"))
			}
			c.live.NodeClaims = test.nodes
			limits(c, test.limit)
			if test.given != nil {
				test.given(c)
			}
			if diff := cmp.Diff(test.want, script(c.plan(t, git...))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWhatIsHeldForAPoolSaysWhatReleasesIt: the limit in the message is sufficient, and so is an Approval; changing the
// limit makes another plan.
func TestWhatIsHeldForAPoolSaysWhatReleasesIt(t *testing.T) {
	c := newCluster(t)
	c.have(t, owner, class("default"), pool("a", "default"), pool("b", "default"), pool("c", "default"))
	c.live.NodeClaims = slices.Concat(claims("a", 4), claims("b", 5))
	ending := claims("ending", 1, disrupted)[0]
	ending.Pool = "a"
	c.live.NodeClaims = append(c.live.NodeClaims, ending)
	limits(c, intstr.FromString("50%"))
	git := []string{class("default", "userData: hello"), tainted("a"), pool("b", "default"), pool("c", "default")}
	held := c.plan(t, git...)
	said := map[string]string{}
	for _, change := range held.Changes {
		said[change.Ref.String()] = change.Message
	}
	const first = "5 nodes of NodePool/a would be disrupted, but guard.maxDisruptedNodesPerPool allows 3: set it to 5 (it is 50% of 5 nodes, at least 3; 1 of these nodes are already terminating or outdated; replacements count in total because spec.rollout.onFailure is Report), or change less in one commit: EC2NodeClass/default (10), NodePool/a (5)"
	want := map[string]string{"NodePool/a": first, "EC2NodeClass/default": first + "; also 5 of NodePool/b (limit 3)"}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Errorf("it says (-want +got):\n%s", diff)
	}
	if held.Approvable == nil || len(held.Approvable.Entries) != 2 {
		t.Fatalf("approvable is %+v", held.Approvable)
	}

	goes := func(t *testing.T, c *drawnCluster) {
		t.Helper()
		if p := c.plan(t, git...); p.Approvable != nil {
			t.Errorf("held is still %v", script(p))
		}
	}
	approve(c, held)
	goes(t, c)
	limits(c, intstr.FromInt32(4))
	other := c.plan(t, git...)
	if other.Approvable == nil || other.Approvable.Digest == held.Approvable.Digest {
		t.Errorf("with another limit the Approval counts: %v", script(other))
	}
	c.policy.Approved = nil
	limits(c, intstr.FromInt32(5))
	goes(t, c)
}
