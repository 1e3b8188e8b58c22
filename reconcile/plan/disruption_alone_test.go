package plan_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestGuardOfOneChange: a single change is held if it terminates or replaces more nodes than the guard allows, whatever
// else it does to the pool.
func TestGuardOfOneChange(t *testing.T) {
	lives := func(name, line string) string {
		return strings.Replace(pool(name, "default"), "      requirements:", "      "+line+"\n      requirements:", 1)
	}
	onDemand := func(text string) string { return strings.Replace(text, "values: [spot]", "values: [on-demand]", 1) }
	odd := claims("a", 8)
	for i := range odd {
		odd[i].Labels = plan.PackLabels(map[string]string{"karpenter.sh/capacity-type": "on-demand"})
	}
	odd[0].Labels = plan.PackLabels(map[string]string{"karpenter.sh/capacity-type": "spot"})
	const toOnDemand = " spec.template.spec.requirements[0].values[0]:spot→on-demand"
	for name, test := range map[string]struct {
		before, after string
		nodes         []plan.NodeClaim
		hosts         string
		doubt         func(p *plan.Policy)
		want          string
	}{
		"fewer replicas, within it": {
			before: pool("a", "default", "replicas: 8"), after: pool("a", "default", "replicas: 5"), nodes: claims("a", 8),
			want: "Update NodePool/a Differs spec.replicas:8→5 drains 3",
		},
		"fewer replicas": {
			before: pool("a", "default", "replicas: 8"), after: pool("a", "default", "replicas: 4"), nodes: claims("a", 8),
			want: "Hold NodePool/a MaxDisruptedNodes spec.replicas:8→4 drains 4",
		},
		"fewer replicas in an older commit": {
			before: pool("a", "default", "replicas: 8"), after: pool("a", "default", "replicas: 7"), nodes: claims("a", 8),
			doubt: func(p *plan.Policy) { p.BranchReset = true },
			want:  "Hold NodePool/a OlderRevision spec.replicas:8→7 drains 1",
		},
		"fewer replicas in a commit that may be older": {
			before: pool("a", "default", "replicas: 8"), after: pool("a", "default", "replicas: 7"), nodes: claims("a", 8),
			doubt: func(p *plan.Policy) { p.HistoryUnknown = true },
			want:  "Hold NodePool/a HistoryUnknown spec.replicas:8→7 drains 1",
		},
		"another template in an older commit": {
			before: pool("a", "default"), after: onDemand(pool("a", "default")), nodes: odd,
			doubt: func(p *plan.Policy) { p.BranchReset = true },
			want:  "Hold NodePool/a OlderRevision" + toOnDemand + " replaces 1",
		},
		"another template in an older commit, by a status that knows of no newer one": {
			before: pool("a", "default"), after: onDemand(pool("a", "default")), nodes: odd,
			doubt: func(p *plan.Policy) { p.BranchReset, p.NewRevision = true, false },
			want:  "Hold NodePool/a OlderRevision" + toOnDemand + " replaces 1",
		},
		"another template in a commit that may be older": {
			before: pool("a", "default"), after: onDemand(pool("a", "default")), nodes: odd,
			doubt: func(p *plan.Policy) { p.HistoryUnknown, p.Unasked = true, true },
			want:  "Hold NodePool/a HistoryUnknown" + toOnDemand + " replaces 1",
		},
		"another template, and the host does not know": {
			before: pool("a", "default"), after: onDemand(pool("a", "default")), nodes: odd,
			doubt: func(p *plan.Policy) { p.HistoryUnknown = true },
			want:  "Update NodePool/a Differs" + toOnDemand + " replaces 1",
		},
		"another limit in an older commit": {
			before: pool("a", "default"), after: pool("a", "default", "limits: {cpu: 10}"), nodes: odd,
			doubt: func(p *plan.Policy) { p.BranchReset = true },
			want:  "Update NodePool/a Differs spec.limits.cpu:→10",
		},
		"more replicas in an older commit": {
			before: pool("a", "default", "replicas: 7"), after: pool("a", "default", "replicas: 8"), nodes: claims("a", 7),
			doubt: func(p *plan.Policy) { p.BranchReset = true },
			want:  "Update NodePool/a Differs spec.replicas:7→8",
		},
		"no replicas, and requirements that one node does not meet": {
			before: pool("a", "default", "replicas: 8"), after: onDemand(pool("a", "default", "replicas: 0")), nodes: odd,
			want: "Hold NodePool/a MaxDisruptedNodes spec.replicas:8→0" + toOnDemand + " drains 8",
		},
		"requirements that one node does not meet": {
			before: pool("a", "default", "replicas: 8"), after: onDemand(pool("a", "default", "replicas: 8")), nodes: odd,
			want: "Update NodePool/a Differs" + toOnDemand + " replaces 1",
		},
		"fewer replicas, and wider budgets": {
			before: pool("a", "default", "replicas: 8"), nodes: claims("a", 8, drifted),
			after: pool("a", "default", "replicas: 6", `disruption: {consolidateAfter: 0s, budgets: [{nodes: "30%"}]}`),
			want:  "Hold NodePool/a MaxDisruptedNodes spec.disruption.budgets[0].nodes:10%→30% spec.replicas:8→6 drains 5",
		},
		"nodes that expire": {
			before: lives("a", "expireAfter: 720h"), after: lives("a", "expireAfter: 1h"), nodes: claims("a", 4),
			want: "Hold NodePool/a MaxDisruptedNodes spec.template.spec.expireAfter:720h→1h replaces 4",
		},
		"no replicas of the pool that hosts the controller": {
			before: pool("a", "default", "replicas: 1"), after: pool("a", "default", "replicas: 0"), nodes: claims("a", 1), hosts: "a",
			want: "Hold NodePool/a HostsController spec.replicas:1→0 drains 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.have(t, owner, class("default"), test.before)
			c.live.NodeClaims = test.nodes
			if test.hosts != "" {
				c.policy.Hosts = []plan.Host{{NodePool: test.hosts, Node: "node", Workload: "Karpenter's controller", Pod: "kube-system/karpenter-0"}}
			}
			if test.doubt != nil {
				test.doubt(&c.policy)
			}
			if diff := cmp.Diff([]string{test.want}, script(c.plan(t, class("default"), test.after))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// TestGuardWeighsThisNodeSyncsNodes: nodes of other NodeSyncs neither raise the limit nor count as terminating.
func TestGuardWeighsThisNodeSyncsNodes(t *testing.T) {
	foreign := slices.Concat(claims("foreign", 100), claims("unowned", 100), claims("unknown", 100))
	for name, test := range map[string]struct {
		nodes []plan.NodeClaim
		want  string
	}{
		"many run beside ours": {slices.Concat(claims("a", 4), foreign), "Hold NodePool/a MaxDisruptedNodes"},
		"many end beside ours": {slices.Concat(claims("a", 3), claims("foreign", 9, deleting), claims("unowned", 9, deleting), claims("unknown", 9, deleting)), "Remove NodePool/a"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.have(t, owner, class("default"), pool("a", "default"), pool("b", "default"))
			c.have(t, other, pool("foreign", "default"))
			c.byHand(t, "kubectl", pool("unowned", "default"))
			c.live.NodeClaims = test.nodes
			if diff := cmp.Diff([]string{test.want}, script(c.plan(t, class("default"), pool("b", "default")))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// TestGuardWeighsNodesWhoseMarkIsGone: a percentage is of all nodes of the NodeSync, even while managedFields are
// cleared by hand.
func TestGuardWeighsNodesWhoseMarkIsGone(t *testing.T) {
	c := newCluster(t)
	c.have(t, owner, class("default"), pool("a", "default"), pool("b", "default"))
	c.live.NodeClaims = slices.Concat(claims("a", 4), claims("b", 4))
	c.policy.Adopt = v1alpha1.AdoptAlways
	c.live.Recorded = map[render.Ref]types.UID{}
	for _, name := range []string{"a", "b"} {
		c.live.Recorded[poolRef(name)] = c.Object(poolRef(name)).GetUID()
		c.Edit(t, poolRef(name), "someone", func(o *unstructured.Unstructured) { o.SetManagedFields([]metav1.ManagedFieldsEntry{}) })
	}
	p := c.plan(t, class("default"), tainted("a"), pool("b", "default"))
	i := slices.IndexFunc(p.Changes, func(c plan.Change) bool { return c.Ref == poolRef("a") })
	if i < 0 || !strings.Contains(p.Changes[i].Message, "25% of 8 nodes") {
		t.Errorf("%+v", p.Changes)
	}
}
