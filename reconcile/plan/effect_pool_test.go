package plan_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// TestALargerMinimumAtTheLimits: a pool of three nodes with 4 vCPUs and 16Gi each is at its limits, and a change
// requires larger nodes. Karpenter frees one node for a replacement; if that is too little, the plan warns.
func TestALargerMinimumAtTheLimits(t *testing.T) {
	const warns = "does not allow a replacement (usage is "
	for name, c := range map[string]struct {
		limits, requirement string
		labels              map[string]string
		want                []string
	}{
		"more processors":             {limits: `{cpu: "12"}`, requirement: `{key: karpenter.k8s.aws/instance-cpu, operator: Gt, values: ["7"]}`, want: []string{"NodePool/a: limits.cpu 12 " + warns + "12, a new node has at least 8, and replacing a node frees at most 4"}},
		"a larger size":               {limits: `{cpu: "14"}`, requirement: `{key: karpenter.k8s.aws/instance-size, operator: In, values: [4xlarge, 8xlarge]}`, want: []string{"NodePool/a: limits.cpu 14 " + warns + "12, a new node has at least 8"}},
		"a larger size that is known": {limits: `{cpu: "15"}`, requirement: `{key: karpenter.k8s.aws/instance-size, operator: In, values: [2xlarge]}, {key: karpenter.k8s.aws/instance-category, operator: In, values: [m]}`, want: []string{"NodePool/a: limits.cpu 15 " + warns + "12, a new node has at least 8"}},
		"a larger type":               {limits: `{cpu: "12"}`, requirement: `{key: node.kubernetes.io/instance-type, operator: In, values: [m5.4xlarge]}`, want: []string{"NodePool/a: limits.cpu 12 " + warns}},
		"more memory":                 {limits: `{cpu: "12", memory: 48Gi}`, requirement: `{key: karpenter.k8s.aws/instance-memory, operator: Gt, values: ["65535"]}`, want: []string{"NodePool/a: limits.memory 48Gi " + warns + "48Gi, a new node has at least 32Gi, and replacing a node frees at most 16Gi"}},
		"as many nodes":               {limits: `{nodes: "3"}`, requirement: `{key: karpenter.k8s.aws/instance-generation, operator: Gt, values: ["7"]}`},
		"fewer nodes than run":        {limits: `{nodes: "2"}`, requirement: `{key: karpenter.k8s.aws/instance-generation, operator: Gt, values: ["7"]}`, want: []string{"NodePool/a: limits.nodes 2 " + warns + "3, a new node has at least 1, and replacing a node frees at most 1"}},
		"room for one":                {limits: `{cpu: "16"}`, requirement: `{key: karpenter.k8s.aws/instance-cpu, operator: Gt, values: ["7"]}`},
		"the same size":               {limits: `{cpu: "12"}`, requirement: `{key: karpenter.k8s.aws/instance-generation, operator: Gt, values: ["7"]}`},
		"no limits":                   {limits: `{}`, requirement: `{key: karpenter.k8s.aws/instance-cpu, operator: Gt, values: ["7"]}`},
		"nodes of unknown size":       {limits: `{cpu: "12"}`, labels: map[string]string{"team": "a"}, requirement: `{key: karpenter.k8s.aws/instance-cpu, operator: Gt, values: ["7"]}`},
	} {
		t.Run(name, func(t *testing.T) {
			limits := "limits: " + c.limits
			cluster := newCluster(t)
			cluster.have(t, owner, class("default"), pool("a", "default", limits))
			cluster.Edit(t, poolRef("a"), "karpenter", func(o *unstructured.Unstructured) {
				o.Object["status"] = map[string]any{"resources": map[string]any{"cpu": "12", "memory": "48Gi", "nodes": "3"}}
			})
			labels := c.labels
			if labels == nil {
				labels = map[string]string{
					"karpenter.k8s.aws/instance-cpu": "4", "karpenter.k8s.aws/instance-memory": "16384", "karpenter.k8s.aws/instance-size": "xlarge",
					"karpenter.k8s.aws/instance-generation": "5", "node.kubernetes.io/instance-type": "m5.xlarge", "karpenter.k8s.aws/instance-category": "m", "karpenter.sh/capacity-type": "spot",
				}
			}
			cluster.live.NodeClaims = claims("a", 3, func(n *plan.NodeClaim) { n.Labels = plan.PackLabels(labels) })
			p := cluster.plan(t, class("default"), strings.Replace(pool("a", "default", limits), "values: [spot]}]", "values: [spot]}, "+c.requirement+"]", 1))
			if p.Changes[0].Nodes != 3 {
				t.Fatalf("%d nodes are replaced, want 3", p.Changes[0].Nodes)
			}
			begins := cmp.Comparer(func(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) })
			if diff := cmp.Diff(c.want, p.Changes[0].Warnings, begins); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}
