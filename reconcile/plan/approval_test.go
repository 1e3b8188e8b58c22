package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// approve approves everything that a Plan holds, for the next Plan.
func approve(c *drawnCluster, p *plan.Plan) {
	c.policy.Approved = []v1alpha1.ApprovedPlan{{Digest: p.Approvable.Digest, WeighedBy: p.Approvable.WeighedBy, Entries: p.Approvable.Entries}}
}

// TestApproved: only what is approved proceeds.
func TestApproved(t *testing.T) {
	git := []string{class("default"), pool("a", "default")}
	for name, test := range map[string]struct {
		// then changes the state after the approval.
		then func(*testing.T, *drawnCluster)
		git  []string
		want []string
	}{
		"it goes":                    {git: git, want: []string{"Remove NodePool/b", "Remove NodePool/c"}},
		"the last pool with it: not": {git: git[:1], want: []string{"Hold NodePool/a LastPool", "Hold NodePool/b LastPool", "Hold NodePool/c LastPool"}},
		"HEAD is older than it: not": {git: git, then: func(_ *testing.T, c *drawnCluster) { c.policy.BranchReset = true }, want: []string{"Hold NodePool/b OlderRevision", "Hold NodePool/c OlderRevision"}},
		"the status is lost: not":    {git: git, then: func(_ *testing.T, c *drawnCluster) { c.policy.StatusLost = true }, want: []string{"Hold NodePool/b StatusLost", "Hold NodePool/c StatusLost"}},
		"it hosts the controller: not": {git: git, then: func(_ *testing.T, c *drawnCluster) {
			c.policy.Hosts = []plan.Host{{NodePool: "b", Workload: "Karpenter's controller"}}
		}, want: []string{"Hold NodePool/b HostsController", "Remove NodePool/c"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.have(t, owner, class("default"), pool("a", "default"), pool("b", "default"), pool("c", "default"))
			held := c.plan(t, git...)
			if diff := cmp.Diff([]string{"Hold NodePool/b MaxRemovedPools", "Hold NodePool/c MaxRemovedPools"}, script(held)); diff != "" {
				t.Fatalf("before the approval (-want +got):\n%s", diff)
			}
			approve(c, held)
			if test.then != nil {
				test.then(t, c)
			}
			if diff := cmp.Diff(test.want, script(c.plan(t, test.git...))); diff != "" {
				t.Errorf("after it (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAFewNodesMoreAreTolerated: the tolerance applies once, to everything that was approved together; one more node in
// each of many pools would double the total.
func TestAFewNodesMoreAreTolerated(t *testing.T) {
	var all []string
	pools := []string{"b", "c", "d"}
	for _, name := range pools {
		all = append(all, pool(name, "default"))
	}
	for name, test := range map[string]struct {
		more []string
		goes bool
	}{
		"one more":                 {more: []string{"b"}, goes: true},
		"one more in each of two":  {more: []string{"b", "c"}},
		"one more in each of them": {more: pools},
		"two more in one":          {more: []string{"b", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.have(t, owner, append([]string{class("default"), pool("a", "default")}, all...)...)
			c.policy.Guard.MaxDisruptedNodes = ptr.To(intstr.FromInt32(10)) // otherwise this is another reason to hold one more
			for _, p := range pools {
				c.live.NodeClaims = append(c.live.NodeClaims, claims(p, 1)...)
			}
			held := c.plan(t, class("default"), pool("a", "default"))
			if held.Approvable == nil || held.Approvable.Nodes() != len(pools) {
				t.Fatalf("before the approval: %v", script(held))
			}
			approve(c, held)
			for i, p := range test.more {
				more := claims(p, 1)[0]
				more.Name, more.UID = fmt.Sprintf("more-%d", i), types.UID(fmt.Sprintf("more-%d", i))
				c.live.NodeClaims = append(c.live.NodeClaims, more)
			}
			after := c.plan(t, class("default"), pool("a", "default"))
			if goes := after.Approvable == nil; goes != test.goes {
				t.Errorf("after it: %v", script(after))
			}
		})
	}
}

// TestNoNodeWasShown: approving the removal of NodePools without nodes approves the termination of no node.
func TestNoNodeWasShown(t *testing.T) {
	c := newCluster(t)
	c.have(t, owner, class("default"), pool("a", "default"), pool("b", "default"), pool("c", "default"))
	c.policy.Guard.MaxDisruptedNodes = ptr.To(intstr.FromInt32(10))
	held := c.plan(t, class("default"), pool("a", "default"))
	if held.Approvable == nil || held.Approvable.Nodes() != 0 {
		t.Fatalf("before the approval: %v", script(held))
	}
	approve(c, held)
	if after := c.plan(t, class("default"), pool("a", "default")); after.Approvable != nil {
		t.Errorf("after it: %v", script(after))
	}
	c.live.NodeClaims = claims("b", 1)
	if after := c.plan(t, class("default"), pool("a", "default")); after.Approvable == nil || after.Approvable.Nodes() != 1 {
		t.Errorf("with a node: %v", script(after))
	}
}

// TestAnApprovalCoversNoOtherLabels: policies read the labels and annotations of a commit, and people were shown those of the
// commit that they approved.
func TestAnApprovalCoversNoOtherLabels(t *testing.T) {
	changed := withSelectors("ami al2023@v20250904")
	with := func(metadata string) string {
		return strings.Replace(changed, "{name: default}", "{name: default, "+metadata+"}", 1)
	}
	for name, test := range map[string]struct {
		shown, then string
		goes        bool
	}{
		"the same":               {changed, changed, true},
		"the same labels":        {with("labels: {tier: web}"), with("labels: {tier: web}"), true},
		"other labels":           {with("labels: {tier: web}"), with("labels: {tier: critical}"), false},
		"labels where none were": {changed, with("labels: {tier: critical}"), false},
		"other annotations":      {changed, with("annotations: {example.com/owner: a}"), false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.have(t, owner, class("default"), pool("a", "default"))
			c.live.NodeClaims = claims("a", 3)
			c.policy.Guard.MaxReplacedNodes = ptr.To(intstr.FromInt32(1))
			held := c.plan(t, test.shown, pool("a", "default"))
			if words := script(held); len(words) != 1 || !strings.HasPrefix(words[0], "Hold EC2NodeClass/default MaxReplacedNodes ") {
				t.Fatalf("before the approval: %v", words)
			}
			approve(c, held)
			if after := c.plan(t, test.then, pool("a", "default")); (after.Approvable == nil) != test.goes {
				t.Errorf("after it: %v", script(after))
			}
		})
	}
}

// TestTheDigestOutlivesItsApproval: the commit that approves it has another revision, another list and
// another plumbline.yaml, and is about the same. Whatever else it changes is another plan.
func TestTheDigestOutlivesItsApproval(t *testing.T) {
	c := newCluster(t)
	c.have(t, owner, class("default"), pool("a", "default"), pool("b", "default"), pool("c", "default"))
	git := []string{class("default"), pool("a", "default")}
	digests := func(change func(k *render.Karpenter, set *render.Set), values ...map[string]any) [3]string {
		t.Helper()
		k := &render.Karpenter{Version: "1.14.1", ValuesFiles: []string{"values.yaml"}}
		if c.policy.FileValues = values; values == nil {
			c.policy.FileValues = []map[string]any{{"replicas": int64(2), "logLevel": "info"}}
		}
		set := c.set(t, git...)
		set.Revision, set.Sum, set.Inputs = "main@sha1:1", "", render.Inputs{"prod/plumbline.yaml": "1", "prod/values.yaml": "1"}
		change(k, set)
		c.policy.Karpenter, c.policy.ConfigFile = k, render.ConfigFile("./prod")
		live := c.live
		live.Objects = plan.NewObjects(c.Objects())
		p, err := plan.Make(t.Context(), set, live, c.policy, c)
		if err != nil {
			t.Fatal(err)
		}
		return [3]string{p.Approvable.Digest, p.Approvable.Outcome, p.Digest}
	}
	before := digests(func(*render.Karpenter, *render.Set) {})
	for name, c := range map[string]struct {
		change func(*render.Karpenter, *render.Set)
		values []map[string]any
		same   bool
	}{
		"it is approved": {same: true, change: func(k *render.Karpenter, set *render.Set) {
			k.Approve = []string{"sha256:1"}
			set.Revision, set.Inputs["prod/plumbline.yaml"] = "main@sha1:2", "2"
		}},
		"another version of Karpenter": {change: func(k *render.Karpenter, _ *render.Set) { k.Version = "1.15.0" }},
		"other values":                 {values: []map[string]any{{"replicas": int64(3), "logLevel": "info"}}, change: func(*render.Karpenter, *render.Set) {}},
		"values that are removed":      {values: []map[string]any{{"replicas": nil, "logLevel": "info"}}, change: func(*render.Karpenter, *render.Set) {}},
		"a comment on the values":      {same: true, change: func(_ *render.Karpenter, set *render.Set) { set.Inputs["prod/values.yaml"] = "2" }},
		"another way to the values":    {same: true, change: func(k *render.Karpenter, _ *render.Set) { k.ValuesFiles = []string{"./x/../values.yaml"} }},
		"an empty file more": {
			same: true, values: []map[string]any{nil, {"logLevel": "info", "replicas": int64(2)}, {}},
			change: func(k *render.Karpenter, _ *render.Set) { k.ValuesFiles = []string{"a.yaml", "values.yaml", "b.yaml"} },
		},
		"values that are not named": {same: true, change: func(_ *render.Karpenter, set *render.Set) { set.Inputs["prod/other.yaml"] = "2" }},
		"a file that nothing reads": {same: true, change: func(_ *render.Karpenter, set *render.Set) { set.Inputs["prod/README.md"] = "2" }},
		"a name that nothing uses":  {same: true, change: func(k *render.Karpenter, _ *render.Set) { k.Substitute = map[string]string{"UNUSED": "a1b2"} }},
		"a kind that is nowhere":    {same: true, change: func(k *render.Karpenter, _ *render.Set) { k.IgnoreKinds = []string{"Widget"} }},
		"another way to the nodes":  {same: true, change: func(k *render.Karpenter, _ *render.Set) { k.Nodes = []string{"./nodes/../nodes"} }},
		"another chart in Git": {change: func(k *render.Karpenter, set *render.Set) {
			k.Repository, set.Inputs["charts/karpenter/Chart.yaml"] = "../charts", "2"
		}},
	} {
		if after := digests(c.change, c.values...); (after == before) != c.same {
			t.Errorf("%s: %v, before %v", name, after, before)
		}
	}
}
