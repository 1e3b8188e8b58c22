package plan_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

func TestEffect(t *testing.T) {
	const a, b = `{key: a, effect: NoSchedule}`, `{key: b, effect: NoSchedule}`
	withTaints := func(taints string) string {
		return `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: []
      taints: [` + taints + `]
`
	}
	// fits returns a pool for instances of one architecture.
	fits := func(arch string, more ...string) string {
		return strings.Replace(pool("general", "default", more...), "{key: karpenter.sh/capacity-type, operator: In, values: [spot]}", "{key: kubernetes.io/arch, operator: In, values: ["+arch+"]}", 1)
	}
	// lives returns a pool with a field in the template's spec.
	lives := func(field string) string {
		return strings.Replace(pool("general", "default"), "      requirements:", "      "+field+"\n      requirements:", 1)
	}
	selects := func(terms string) string {
		return strings.Replace(class("default"), "subnetSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]", "subnetSelectorTerms: ["+terms+"]", 1)
	}
	image := func(alias string) string {
		return strings.Replace(class("default"), "al2023@latest", alias, 1)
	}
	tests := map[string]struct {
		before, after []string
		want          map[string]int
	}{
		"limits touch no node": {
			before: []string{class("default"), pool("general", "default")},
			after:  []string{class("default"), pool("general", "default", "limits: {cpu: 1}")},
			want:   map[string]int{"NodePool/general None": 0},
		},
		"a class that is replaced by another replaces the pool's nodes": {
			before: []string{class("default"), class("other"), pool("general", "default")},
			after:  []string{class("default"), class("other"), pool("general", "other")},
			want:   map[string]int{"NodePool/general Replace": 2},
		},
		"taints": {
			before: []string{class("default"), withTaints(a)},
			after:  []string{class("default"), withTaints(a + "," + b)},
			want:   map[string]int{"NodePool/general Replace": 2},
		},
		"taints in another order": {
			before: []string{class("default"), withTaints(a + "," + b)},
			after:  []string{class("default"), withTaints(b+","+a) + "  weight: 2\n"},
			want:   map[string]int{"NodePool/general None": 0},
		},
		"user data of a class replaces the nodes of all its pools": {
			before: []string{class("default")},
			after:  []string{class("default", "userData: hello")},
			want:   map[string]int{"EC2NodeClass/default Replace": 3},
		},
		"requirements that some nodes do not fit": {
			before: []string{class("default"), fits("amd64, arm64")},
			after:  []string{class("default"), fits("arm64")},
			want:   map[string]int{"NodePool/general Replace": 1},
		},
		"requirements that no node fits": {
			before: []string{class("default"), fits("amd64, arm64")},
			after:  []string{class("default"), fits("s390x")},
			want:   map[string]int{"NodePool/general Replace": 2},
		},
		"requirements that all nodes fit": {
			before: []string{class("default"), fits("amd64")},
			after:  []string{class("default"), fits("amd64, arm64")},
			want:   map[string]int{"NodePool/general Consolidate up to": 1},
		},
		"expireAfter": {
			before: []string{class("default"), lives("expireAfter: 720h")},
			after:  []string{class("default"), lives("expireAfter: 30s")},
			want:   map[string]int{"NodePool/general Replace": 2},
		},
		"terminationGracePeriod": {
			before: []string{class("default"), pool("general", "default")},
			after:  []string{class("default"), lives("terminationGracePeriod: 1s")},
			want:   map[string]int{"NodePool/general Replace": 2},
		},
		"fewer replicas": {
			before: []string{class("default"), pool("general", "default", "replicas: 2")},
			after:  []string{class("default"), pool("general", "default", "replicas: 1")},
			want:   map[string]int{"NodePool/general Drain": 1},
		},
		"no replicas": {
			before: []string{class("default"), pool("general", "default", "replicas: 2")},
			after:  []string{class("default"), pool("general", "default", "replicas: 0")},
			want:   map[string]int{"NodePool/general Drain": 2},
		},
		"more replicas": {
			before: []string{class("default"), pool("general", "default", "replicas: 2")},
			after:  []string{class("default"), pool("general", "default", "replicas: 5")},
			want:   map[string]int{"NodePool/general None": 0},
		},
		"another AMI": {
			before: []string{class("default")},
			after:  []string{image("al2023@v20260101")},
			want:   map[string]int{"EC2NodeClass/default Replace up to": 3},
		},
		"another family of AMIs": {
			before: []string{class("default")},
			after:  []string{image("bottlerocket@latest")},
			want:   map[string]int{"EC2NodeClass/default Replace": 3},
		},
		"an AMI that nobody can read": {
			before: []string{class("default")},
			after:  []string{image("plan9@latest")},
			want:   map[string]int{"EC2NodeClass/default Replace up to": 3},
		},
		"other subnets": {
			before: []string{class("default")},
			after:  []string{selects("{id: subnet-1}")},
			want:   map[string]int{"EC2NodeClass/default Replace up to": 3},
		},
		"an instance profile of an unused class": {
			before: []string{class("unused")},
			after:  []string{class("unused", "userData: hello")},
			want:   map[string]int{"EC2NodeClass/unused None": 0},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.have(t, owner, test.before...)
			c.live.NodeClaims = []plan.NodeClaim{
				{Name: "1", UID: "1", Pool: "general", Class: "default", Labels: plan.PackLabels(map[string]string{"kubernetes.io/arch": "amd64"})},
				{Name: "2", UID: "2", Pool: "general", Class: "default", Labels: plan.PackLabels(map[string]string{"kubernetes.io/arch": "arm64"})},
				{Name: "3", UID: "3", Pool: "batch", Class: "default"},
			}
			all := intstr.FromString("100%")
			c.policy.Guard.MaxDisruptedNodes = &all
			got := map[string]int{}
			for _, change := range c.plan(t, test.after...).Changes {
				key := change.Ref.String() + " " + string(change.Effect)
				if change.UpTo {
					key += " up to"
				}
				got[key] = change.Nodes
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("effects (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAHashOfAnotherVersionIsNoProof: if the controller hashes differently than the linked library, the effect is not
// exact.
func TestAHashOfAnotherVersionIsNoProof(t *testing.T) {
	for kind, test := range map[string]struct {
		before, after, annotation string
		want                      int
	}{
		"NodePool":     {pool("general", "default"), tainted("general"), "karpenter.sh/nodepool-hash-version", 2},
		"EC2NodeClass": {class("default"), class("default", "userData: hello"), "karpenter.k8s.aws/ec2nodeclass-hash-version", 2},
	} {
		for version, upTo := range map[string]bool{"": false, "v0": true} {
			c := newCluster(t)
			c.have(t, owner, class("default"), test.before)
			ref := c.Definition(t, test.before).Ref
			c.Edit(t, ref, "karpenter", func(o *unstructured.Unstructured) {
				o.SetAnnotations(map[string]string{test.annotation: version})
			})
			c.live.NodeClaims = claims("general", 2)
			git := []string{test.after}
			if kind == "NodePool" {
				git = append(git, class("default"))
			}
			changes := c.plan(t, git...).Changes
			if len(changes) != 1 || changes[0].UpTo != upTo || changes[0].Nodes != test.want {
				t.Errorf("%s hashed by %q: %+v", kind, version, changes)
			}
		}
	}
}

// TestWarningsOfAPool: the plan warns of what a change does to nodes later.
func TestWarningsOfAPool(t *testing.T) {
	lives := func(field string) string {
		return strings.Replace(pool("general", "default"), "      requirements:", "      "+field+"\n      requirements:", 1)
	}
	tests := map[string]struct{ before, after, want string }{
		"replicas": {
			pool("general", "default", "replicas: 2"), pool("general", "default", "replicas: 0"),
			"NodePool/general: replicas 2 to 0: Karpenter terminates 2 nodes at once, regardless of disruption budgets: general-0, general-1",
		},
		"a grace period": {
			pool("general", "default"), lives("terminationGracePeriod: 1s"),
			"NodePool/general: terminationGracePeriod 1s: after that time, the drain of a new node overrides PodDisruptionBudgets and karpenter.sh/do-not-disrupt",
		},
		"a longer grace period": {lives("terminationGracePeriod: 1s"), lives("terminationGracePeriod: 2s"), ""},
		"an age":                {lives("expireAfter: 720h"), lives("expireAfter: 30m"), "NodePool/general: expireAfter 30m is less than the age of 2 of its 2 nodes: Karpenter terminates each new node at that age, again and again, regardless of disruption budgets"},
		"an age that none has":  {lives("expireAfter: 720h"), lives("expireAfter: 24h"), ""},
		"no budget":             {pool("general", "default"), pool("general", "default", "disruption: {budgets: [{nodes: 100%}]}"), "NodePool/general: its disruption budgets allow Karpenter to disrupt all of its 2 nodes at the same time"},
		"a budget that limits":  {pool("general", "default"), pool("general", "default", "disruption: {budgets: [{nodes: 100%}, {nodes: 20%}]}"), ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.have(t, owner, class("default"), test.before)
			c.policy.Now = time.Unix(100_000, 0)
			c.live.NodeClaims = claims("general", 2, func(n *plan.NodeClaim) { n.Created = c.policy.Now.Add(-time.Hour) })
			changes := c.plan(t, class("default"), test.after).Changes
			if len(changes) != 1 || strings.Join(changes[0].Warnings, "; ") != test.want {
				t.Errorf("%+v", changes)
			}
		})
	}
}

// TestWhatAChangeSaysBesideItsEffect: limits below the current usage, budgets that never allow a replacement, when
// Karpenter consolidates, and which pool it launches from.
func TestWhatAChangeSaysBesideItsEffect(t *testing.T) {
	disruption := func(text string) string { return "disruption: {" + text + "}" }
	budgets := func(text string) string { return disruption("consolidateAfter: 0s, budgets: [" + text + "]") }
	for name, test := range map[string]struct {
		before, after   string
		warnings, notes []string
	}{
		"limits above what runs":     {after: `limits: {cpu: "13"}`},
		"limits below what runs":     {after: `limits: {cpu: "11", memory: 100Gi}`, warnings: []string{"NodePool/a: limits.cpu 11 is below the current usage of 12"}},
		"limits that were below":     {before: `limits: {cpu: "11"}`, after: `limits: {cpu: "10"}`},
		"limits raised, still below": {before: `limits: {cpu: "20"}`, after: `limits: {cpu: "5"}`, warnings: []string{"NodePool/a: limits.cpu 5 is below the current usage of 12"}},
		"budgets that allow none":    {after: budgets(`{nodes: "0"}`), warnings: []string{"NodePool/a: its disruption budgets allow Karpenter to replace none of its 3 nodes for drift within 31 days"}},
		"a window that comes":        {after: budgets(`{nodes: "0", schedule: "0 0 * * 0-5", duration: 24h}, {nodes: "2"}`), notes: []string{"NodePool/a: Karpenter may consolidate up to 2 nodes more than before"}},
		"a window of no day":         {after: budgets(`{nodes: "0", schedule: "0 0 * * *", duration: 24h}, {nodes: "2"}`), warnings: []string{"NodePool/a: its disruption budgets allow Karpenter to replace none"}},
		"a day that never comes":     {after: budgets(`{nodes: "0", schedule: "0 0 30 2 *", duration: 24h}, {nodes: "2"}`), warnings: []string{"NodePool/a: the schedule \"0 0 30 2 *\" of a disruption budget never matches, and Karpenter treats such a budget as always active"}},
		"budgets that allowed none":  {before: budgets(`{nodes: "0"}`), after: budgets(`{nodes: "0"}`) + "\n  weight: 7", notes: []string{"NodePool/a: weight 0 to 7"}},
		"consolidateAfter":           {before: disruption("consolidateAfter: 30s"), after: disruption("consolidateAfter: 1h"), notes: []string{"NodePool/a: consolidateAfter 30s to 1h: the time that Karpenter waits"}},
		"no consolidation":           {before: disruption("consolidateAfter: 30s"), after: disruption("consolidateAfter: Never"), notes: []string{"NodePool/a: consolidateAfter 30s to Never: Karpenter no longer consolidates its nodes"}},
		"consolidationPolicy":        {before: disruption("consolidateAfter: 0s, consolidationPolicy: WhenEmpty"), after: disruption("consolidateAfter: 0s, consolidationPolicy: WhenEmptyOrUnderutilized"), notes: []string{"NodePool/a: consolidationPolicy WhenEmpty to WhenEmptyOrUnderutilized", "NodePool/a: Karpenter may consolidate up to 3 nodes more than before"}},
		"weight":                     {before: "weight: 10", after: "weight: 90", notes: []string{"NodePool/a: weight 10 to 90"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.have(t, owner, class("default"), pool("a", "default", test.before))
			c.Edit(t, poolRef("a"), "karpenter", func(o *unstructured.Unstructured) {
				o.Object["status"] = map[string]any{"resources": map[string]any{"cpu": "12", "memory": "48Gi", "nodes": "3"}}
			})
			c.live.NodeClaims = claims("a", 3)
			c.policy.Now = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
			p := c.plan(t, class("default"), pool("a", "default", test.after))
			begins := cmp.Comparer(func(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) })
			if diff := cmp.Diff(test.warnings, p.Changes[0].Warnings, begins); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.notes, p.Changes[0].Notes, begins); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPrefixesReachNewNodesOnly: Karpenter replaces no node for ipPrefixCount, and the plan reports that.
func TestPrefixesReachNewNodesOnly(t *testing.T) {
	prefixes := func(n string) string { return class("default", "ipPrefixCount: "+n) }
	for name, test := range map[string]struct{ before, after, want string }{
		"more":      {prefixes("1"), prefixes("8"), "EC2NodeClass/default: ipPrefixCount 1 to 8: only nodes that are launched from now on have it; Karpenter replaces no running node for it"},
		"the first": {class("default"), prefixes("1"), "EC2NodeClass/default: ipPrefixCount none to 1: only nodes that are launched from now on have it; Karpenter replaces no running node for it"},
		"another":   {prefixes("1"), class("default", "ipPrefixCount: 1", "detailedMonitoring: true"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.have(t, owner, test.before, pool("a", "default"))
			c.live.NodeClaims = claims("a", 3)
			p := c.plan(t, test.after, pool("a", "default"))
			if got := strings.Join(p.Changes[0].Notes, "\n"); got != test.want {
				t.Errorf("%s: notes %q, want %q", p.Changes[0].Ref, got, test.want)
			}
		})
	}
}
