package plan_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

const (
	keeps        = "disruption: {consolidateAfter: Never}"
	consolidates = "disruption: {consolidateAfter: 0s}"
)

// idlePools is a cluster with the pools a to d of four nodes each, none of which Karpenter may consolidate yet; the guard allows
// five nodes.
func idlePools(t *testing.T) *cluster {
	c := newCluster(t)
	c.policy.Brakes = true
	c.policy.Now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	c.policy.Guard.MaxDisruptedNodes = ptr.To(intstr.FromInt32(5))
	c.have(t, owner, class("default"))
	for _, name := range []string{"a", "b", "c", "d"} {
		c.have(t, owner, pool(name, "default", keeps))
		uid := c.Object(poolRef(name)).GetUID()
		c.live.NodeClaims = append(c.live.NodeClaims, claims(name, 4, ofPool(uid), func(n *plan.NodeClaim) { n.Initialized = true })...)
	}
	return c
}

// carryOut records and writes what a Plan of a revision changes, as a reconcile does.
func (c *cluster) carryOut(t *testing.T, revision string, definitions ...string) *plan.Plan {
	t.Helper()
	p := c.plan(t, definitions...)
	c.live.RecentTerminations = plan.RecordTerminations(c.live.RecentTerminations, revision, p.Changes, metav1.NewTime(c.policy.Now))
	for i := range p.Changes {
		if p.Changes[i].Action.Writes() {
			c.have(t, owner, definitions[i+1])
		}
	}
	return p
}

// gone has the nodes of a pool vanish.
func (c *cluster) gone(name string) {
	var left []plan.NodeClaim
	for _, n := range c.live.NodeClaims {
		if n.Pool != name {
			left = append(left, n)
		}
	}
	c.live.NodeClaims = left
}

// TestTerminationsOfAPeriodCountTogether: nodes that several commits let Karpenter terminate within guard.removalPeriod count
// together, also once they are gone, and with those of removals; each of them once.
func TestTerminationsOfAPeriodCountTogether(t *testing.T) {
	a := pool("a", "default", consolidates)
	for name, test := range map[string]struct {
		given func(*cluster)
		// git is of the second commit, beside the class.
		git  []string
		want []string
	}{
		"another pool may be consolidated": {
			git:  []string{a, pool("b", "default", consolidates), pool("c", "default", keeps), pool("d", "default", keeps)},
			want: []string{"Hold NodePool/b MaxDisruptedNodes spec.disruption.consolidateAfter:Never→0s consolidates up to 4"},
		},
		"and the nodes of the first are gone": {
			given: func(c *cluster) { c.gone("a") },
			git:   []string{a, pool("b", "default", consolidates), pool("c", "default", keeps), pool("d", "default", keeps)},
			want:  []string{"Hold NodePool/b MaxDisruptedNodes spec.disruption.consolidateAfter:Never→0s consolidates up to 4"},
		},
		"and the limit allows both while the nodes of the first are terminating": {
			given: func(c *cluster) {
				c.limit(8)
				for i := range c.live.NodeClaims[:4] {
					disrupted(&c.live.NodeClaims[i])
				}
			},
			git:  []string{a, pool("b", "default", consolidates), pool("c", "default", keeps), pool("d", "default", keeps)},
			want: []string{"Update NodePool/b Differs spec.disruption.consolidateAfter:Never→0s consolidates up to 4"},
		},
		"and the period is over": {
			given: func(c *cluster) { c.policy.Now = c.policy.Now.Add(30 * time.Minute) },
			git:   []string{a, pool("b", "default", consolidates), pool("c", "default", keeps), pool("d", "default", keeps)},
			want:  []string{"Update NodePool/b Differs spec.disruption.consolidateAfter:Never→0s consolidates up to 4"},
		},
		"and the period is over, but the second was held before": {
			given: func(c *cluster) {
				c.policy.Now = c.policy.Now.Add(30 * time.Minute)
				c.live.Held = &v1alpha1.HeldPlan{Entries: []v1alpha1.ApprovedEntry{{Kind: "NodePool", Name: "b"}}}
			},
			git:  []string{a, pool("b", "default", consolidates), pool("c", "default", keeps), pool("d", "default", keeps)},
			want: []string{"Hold NodePool/b MaxDisruptedNodes spec.disruption.consolidateAfter:Never→0s consolidates up to 4"},
		},
		"and commits do not count together": {
			given: func(c *cluster) { c.policy.Guard.RemovalPeriod = &metav1.Duration{} },
			git:   []string{a, pool("b", "default", consolidates), pool("c", "default", keeps), pool("d", "default", keeps)},
			want:  []string{"Update NodePool/b Differs spec.disruption.consolidateAfter:Never→0s consolidates up to 4"},
		},
		"another pool is removed": {
			git:  []string{a, pool("c", "default", keeps), pool("d", "default", keeps)},
			want: []string{"Hold NodePool/b MaxDisruptedNodes"},
		},
		"the same pool is removed": {
			git:  []string{pool("b", "default", keeps), pool("c", "default", keeps), pool("d", "default", keeps)},
			want: []string{"Remove NodePool/a"},
		},
		"replacements count at one time": {
			git: []string{a, tainted("b", keeps), pool("c", "default", keeps), pool("d", "default", keeps)},
			want: []string{
				"Update NodePool/b Differs spec.template.spec.taints:→[{\"effect\":\"NoSchedule\",\"key\":\"a\"}] replaces 4",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := idlePools(t)
			first := []string{class("default"), a, pool("b", "default", keeps), pool("c", "default", keeps), pool("d", "default", keeps)}
			c.carryOut(t, "main@sha1:first", first...)
			if test.given != nil {
				test.given(c)
			}
			if diff := cmp.Diff(test.want, script(c.plan(t, append([]string{class("default")}, test.git...)...))); diff != "" {
				t.Errorf("second commit (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTerminationsOfAPoolCountTogether for guard.maxDisruptedNodesPerPool: two scale-downs of a static pool.
func TestTerminationsOfAPoolCountTogether(t *testing.T) {
	static := func(n int) string { return pool("s", "default", fmt.Sprintf("replicas: %d", n)) }
	c := idlePools(t)
	c.limit(100)
	c.policy.Guard.MaxDisruptedNodesPerPool = ptr.To(intstr.FromInt32(5))
	c.have(t, owner, static(12))
	c.live.NodeClaims = claims("s", 12, ofPool(c.Object(poolRef("s")).GetUID()))
	others := []string{pool("a", "default", keeps), pool("b", "default", keeps), pool("c", "default", keeps), pool("d", "default", keeps)}
	if got := script(c.plan(t, append([]string{class("default"), static(8)}, others...)...)); len(got) != 1 || got[0] != "Update NodePool/s Differs spec.replicas:12→8 drains 4" {
		t.Fatalf("the first: %v", got)
	}
	p := c.plan(t, append([]string{class("default"), static(8)}, others...)...)
	c.live.RecentTerminations = plan.RecordTerminations(nil, "main@sha1:first", p.Changes, metav1.NewTime(c.policy.Now))
	c.have(t, owner, static(8))
	c.live.NodeClaims = c.live.NodeClaims[4:]
	want := []string{"Hold NodePool/s MaxDisruptedNodesPerPool spec.replicas:8→4 drains 4"}
	if diff := cmp.Diff(want, script(c.plan(t, append([]string{class("default"), static(4)}, others...)...))); diff != "" {
		t.Errorf("the second (-want +got):\n%s", diff)
	}
}

// TestATerminationIsRecordedOnce: a change that is written again, because it failed, has one record, and counts once.
func TestATerminationIsRecordedOnce(t *testing.T) {
	c := idlePools(t)
	git := []string{class("default"), pool("a", "default", consolidates), pool("b", "default", keeps), pool("c", "default", keeps), pool("d", "default", keeps)}
	for range 2 {
		p := c.plan(t, git...)
		if want := []string{"Update NodePool/a Differs spec.disruption.consolidateAfter:Never→0s consolidates up to 4"}; !cmp.Equal(want, script(p)) {
			t.Fatalf("plan: %v", script(p))
		}
		c.live.RecentTerminations = plan.RecordTerminations(c.live.RecentTerminations, p.Revision, p.Changes, metav1.NewTime(c.policy.Now))
		c.policy.Now = c.policy.Now.Add(time.Minute)
	}
	want := []v1alpha1.RecentTermination{{
		Name: "a", UID: c.Object(poolRef("a")).GetUID(), Revision: "main@sha1:new", At: metav1.NewTime(c.policy.Now.Add(-time.Minute)), Nodes: 4,
	}}
	if diff := cmp.Diff(want, c.live.RecentTerminations); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	c.limit(3)
	held := c.plan(t, git...)
	if got := plan.RecordTerminations(nil, held.Revision, held.Changes, metav1.NewTime(c.policy.Now)); len(got) > 0 {
		t.Errorf("what is held is recorded: %v", got)
	}
}
