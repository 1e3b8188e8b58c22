package plan_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/plan/planjson"
)

// sample returns a Plan with three changes, one of them a correction of drift, and two removals.
func sample() *planjson.Plan {
	nodes := []planjson.NodeClaim{
		{Name: "a", Pool: "spot", CapacityType: "spot", Zone: "eu-west-1a"},
		{Name: "b", Pool: "spot", CapacityType: "spot", Zone: "eu-west-1b"},
		{Name: "c", Pool: "batch", CapacityType: "on-demand", Zone: "eu-west-1a"},
		{Name: "d", Pool: "batch", CapacityType: "on-demand", Zone: "eu-west-1b"},
	}
	return &planjson.Plan{
		Cluster: "prod-eu", Revision: "main@sha1:1",
		Changes: []planjson.Change{
			{
				Object: "NodePool/spot", Kind: "NodePool", Name: "spot", Action: "Update", Effect: "Replace", Nodes: 2, NodeClaims: nodes[:2],
				Labels: map[string]string{"team": "web"}, Spec: map[string]any{"limits": map[string]any{"cpu": "100"}, "weight": int64(10)},
				LiveSpec: map[string]any{"limits": map[string]any{"cpu": "200"}},
			},
			{Object: "NodePool/new", Kind: "NodePool", Name: "new", Action: "Create", Effect: "None", Spec: map[string]any{}},
			{Object: "NodePool/edited", Kind: "NodePool", Name: "edited", Action: "Update", Effect: "None", Drift: true, Spec: map[string]any{}},
		},
		Removals: []planjson.Removal{
			{Object: "NodePool/batch", Kind: "NodePool", Name: "batch", Nodes: 2, NodeClaims: nodes[2:]},
			{Object: "NodePool/gone", Kind: "NodePool", Name: "gone", Nodes: 9, Terminating: true},
		},
		NodeClaims: nodes,
		Totals:     planjson.Totals{Nodes: 4, ClusterNodes: 4, DisruptedNodes: 4, RemovedPools: 2},
	}
}

func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		expression, message, messageExpression string
		// held is what is held, each with its message, and denied the message of a Deny; both are empty if the Plan
		// passes.
		held   []string
		denied string
	}{
		"true of the plan":          {expression: "plan.totals.disruptedNodes <= 4 && plan.cluster == 'prod-eu'"},
		"false of the plan":         {expression: "plan.totals.disruptedNodes <= 3", message: "too many", held: []string{"all: too many"}, denied: "policy p denies the commit: too many"},
		"nodes of a zone":           {expression: "plan.nodeClaims.filter(n, n.capacityType == 'spot' && n.zone == 'eu-west-1a').size() * 100 <= 25 * plan.nodeClaims.size()"},
		"too many of a zone":        {expression: "plan.nodeClaims.filter(n, n.capacityType == 'spot' && n.zone == 'eu-west-1a').size() * 100 <= 5 * plan.nodeClaims.size()", message: "spot in a", held: []string{"all: spot in a"}, denied: "policy p denies the commit: spot in a"},
		"each change":               {expression: "has(change.spec.limits)", message: "limits, please", held: []string{"NodePool/new: limits, please"}, denied: "policy p denies NodePool/new: limits, please"},
		"two changes":               {expression: "change.name == 'x'", message: "no", held: []string{"NodePool/spot: no", "NodePool/new: no"}, denied: "policy p denies NodePool/spot and 1 more: no"},
		"a quantity":                {expression: "!has(change.liveSpec.limits) || quantity(string(change.spec.limits.cpu)).compareTo(quantity(string(change.liveSpec.limits.cpu))) >= 0", message: "lower", held: []string{"NodePool/spot: lower"}, denied: "policy p denies NodePool/spot: lower"},
		"a label":                   {expression: "'team' in change.labels", message: "whose?", held: []string{"NodePool/new: whose?"}, denied: "policy p denies NodePool/new: whose?"},
		"a field of a spec":         {expression: "!has(change.spec.weight) || change.spec.weight <= 10"},
		"a change and the plan":     {expression: "change.nodes * 2 < plan.totals.nodes", message: "half", held: []string{"NodePool/spot: half"}, denied: "policy p denies NodePool/spot: half"},
		"each removal":              {expression: "removal.nodes < 2", message: "nodes", held: []string{"NodePool/batch: nodes"}, denied: "policy p denies NodePool/batch: nodes"},
		"a message that is made":    {expression: "removal.nodes < 2", message: "no", messageExpression: "removal.name + ' has ' + string(removal.nodes)", held: []string{"NodePool/batch: batch has 2"}, denied: "policy p denies NodePool/batch: batch has 2"},
		"a message that fails":      {expression: "removal.nodes < 2", message: "no", messageExpression: "removal.nodeClaims[9].name", held: []string{"NodePool/batch: no"}, denied: "policy p denies NodePool/batch: no"},
		"no message":                {expression: "plan.totals.removedPools\n < 2", held: []string{"all: it is false: plan.totals.removedPools < 2"}, denied: "policy p denies the commit: it is false: plan.totals.removedPools < 2"},
		"a variable named change":   {expression: "plan.changes.all(change, change.nodes < 2)", message: "one by one", held: []string{"all: one by one"}, denied: "policy p denies the commit: one by one"},
		"what fails":                {expression: "change.spec.weight < 11", held: []string{"NodePool/new: it cannot be evaluated for NodePool/new: no such key: weight"}, denied: "policy p cannot be evaluated for NodePool/new: no such key: weight: nothing is written or removed"},
		"what is no bool after all": {expression: "change.spec.weight", held: []string{"NodePool/spot: it cannot be evaluated for NodePool/spot: it is a int64, but must be a bool", "NodePool/new: it cannot be evaluated for NodePool/new: no such key: weight"}, denied: "policy p cannot be evaluated for NodePool/spot: it is a int64"},
		"what costs too much":       {expression: "plan.nodeClaims.all(a, " + strings.Repeat("plan.nodeClaims.all(b, ", 10) + "a.name != 'x'" + strings.Repeat(")", 11), held: []string{"all: it cannot be evaluated: the CEL cost budget is exceeded"}, denied: "policy p cannot be evaluated: the CEL cost budget is exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			policy := v1alpha1.Policy{Name: "p", Expression: c.expression, Message: c.message, MessageExpression: c.messageExpression, Action: v1alpha1.PolicyHold}
			holds, err := compile(t, policy).Evaluate(t.Context(), sample())
			if err != nil {
				t.Fatal(err)
			}
			var held []string
			for _, h := range holds {
				held = append(held, nameOf(h)+": "+strings.TrimPrefix(strings.TrimSuffix(h.Message, ": change the commit, or spec.policies of the NodeSync"), "policy p: "))
			}
			if diff := cmp.Diff(c.held, held, cmp.Comparer(func(want, got string) bool { return strings.HasPrefix(got, want) || strings.HasPrefix(want, got) })); diff != "" {
				t.Errorf("held (-want +got):\n%s", diff)
			}
			policy.Action = v1alpha1.PolicyDeny
			holds, err = compile(t, policy).Evaluate(t.Context(), sample())
			if len(holds) > 0 || (err == nil) != (c.denied == "") || err != nil && !strings.HasPrefix(err.Error(), c.denied) {
				t.Errorf("denied %v and %v held, want %q", err, holds, c.denied)
			}
		})
	}
}

func nameOf(h plan.PolicyHold) string {
	switch {
	case h.Change != nil:
		return sample().Changes[*h.Change].Object
	case h.Removal != nil:
		return sample().Removals[*h.Removal].Object
	}
	return "all"
}

func compile(t *testing.T, policies ...v1alpha1.Policy) *plan.CompiledPolicies {
	t.Helper()
	r, err := plan.CompilePolicies(policies)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestNothingNewBreaksNoPolicy: policies are not evaluated for a Plan that only corrects drift and reverts removals,
// nor for an empty one.
func TestNothingNewBreaksNoPolicy(t *testing.T) {
	never := compile(t, v1alpha1.Policy{Name: "never", Expression: "plan.cluster == ''", Action: v1alpha1.PolicyDeny})
	old := sample()
	old.Changes = []planjson.Change{{Object: "NodePool/a", Action: "Update", Drift: true}, {Object: "NodePool/b", Action: "TakeBack", Restores: true}}
	old.Removals = []planjson.Removal{{Object: "NodePool/gone", Terminating: true}}
	for name, p := range map[string]*planjson.Plan{"nothing": {Cluster: "prod"}, "nothing new": old} {
		if holds, err := never.Evaluate(t.Context(), p); err != nil || len(holds) > 0 {
			t.Errorf("%s: %v, %v", name, holds, err)
		}
	}
	var denied *plan.PolicyDeniedError
	if _, err := never.Evaluate(t.Context(), sample()); !errors.As(err, &denied) {
		t.Errorf("%v, want one that is denied", err)
	}
	if _, err := (*plan.CompiledPolicies)(nil).Evaluate(t.Context(), sample()); err != nil {
		t.Error(err)
	}
}

// TestAllPoliciesShareOneBudget: many policies that are cheap enough one by one exceed it together.
func TestAllPoliciesShareOneBudget(t *testing.T) {
	p := sample()
	for i := range 200 {
		p.NodeClaims = append(p.NodeClaims, planjson.NodeClaim{Name: fmt.Sprint(i)})
	}
	var policies []v1alpha1.Policy
	for i := range 16 {
		policies = append(policies, v1alpha1.Policy{Name: fmt.Sprint(i), Expression: "plan.nodeClaims.all(a, plan.nodeClaims.filter(b, b.name != a.name || a.pool == b.pool).size() > 0)", Action: v1alpha1.PolicyHold})
	}
	one, err := compile(t, policies[0]).Evaluate(t.Context(), p)
	if err != nil || len(one) > 0 {
		t.Fatalf("one alone: %v, %v", one, err)
	}
	all, err := compile(t, policies...).Evaluate(t.Context(), p)
	if err != nil || len(all) == 0 || !strings.Contains(all[0].Message, "cost budget") {
		t.Errorf("all of them: %v, %v; want those beyond the budget to hold", all, err)
	}
}

// TestALargeCluster: reading each of 10,000 nodes is far below the cost limit of policies.
func TestALargeCluster(t *testing.T) {
	p := sample()
	for i := range 10_000 {
		p.NodeClaims = append(p.NodeClaims, planjson.NodeClaim{Name: fmt.Sprint(i), CapacityType: "spot", Zone: "eu-west-1b"})
	}
	var policies []v1alpha1.Policy
	for i := range 3 {
		policies = append(policies, v1alpha1.Policy{Name: fmt.Sprint(i), Expression: "plan.nodeClaims.filter(n, n.capacityType == 'spot' && n.zone == 'eu-west-1a').size() < 5", Action: v1alpha1.PolicyHold})
	}
	if holds, err := compile(t, policies...).Evaluate(t.Context(), p); err != nil || len(holds) > 0 {
		t.Errorf("%v, %v", holds, err)
	}
}
