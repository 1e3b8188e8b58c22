package plan_test

import (
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/internal/markdown"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan/planjson"
)

// documented returns the policies of the how-to, by name.
func documented(t *testing.T) map[string]v1alpha1.Policy {
	t.Helper()
	all, err := markdown.All("../..")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]v1alpha1.Policy{}
	for _, block := range all["docs/how-to/policies.md"].Blocks {
		if block.Language != "yaml" {
			continue
		}
		sync := &v1alpha1.NodeSync{}
		if strings.HasPrefix(block.Text, "policies:") {
			err = yaml.UnmarshalStrict([]byte(block.Text), &sync.Spec)
		} else {
			err = yaml.UnmarshalStrict([]byte(block.Text), sync)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range sync.Spec.Policies {
			found[p.Name] = p
		}
	}
	return found
}

// onChange returns a Plan with one change of a NodePool.
func onChange(c planjson.Change) *planjson.Plan {
	c.Kind, c.Object = "NodePool", "NodePool/"+c.Name
	return &planjson.Plan{Changes: []planjson.Change{c}}
}

func onSpec(spec map[string]any) *planjson.Plan {
	return onChange(planjson.Change{Name: "a", Action: "Update", Spec: spec})
}

func template(fields map[string]any) map[string]any { return map[string]any{"template": fields} }

func exampleLimits(cpu any) map[string]any {
	return map[string]any{"limits": map[string]any{"cpu": cpu}}
}

var tier = map[string]string{"tier": "critical"}

// critical returns a Plan with one change, in which the NodePool a of the class default is critical.
func critical(c planjson.Change) *planjson.Plan {
	c.Object = c.Kind + "/" + c.Name
	return &planjson.Plan{Changes: []planjson.Change{c}, NodePools: []planjson.NodePool{{Name: "a", Class: "default", Labels: tier}, {Name: "b", Class: "other"}}}
}

// TestDocumentedPoliciesAreNotEvaded by commits of a person who has read them.
func TestDocumentedPoliciesAreNotEvaded(t *testing.T) {
	from := func(live, spec map[string]any) *planjson.Plan {
		return onChange(planjson.Change{Name: "a", Spec: spec, LiveSpec: live})
	}
	none, memory := map[string]any{"limits": map[string]any{}}, map[string]any{"limits": map[string]any{"memory": "100000Gi"}}
	for name, c := range map[string]struct {
		policy string
		plan   *planjson.Plan
		holds  bool
	}{
		"the label leaves in the same commit":    {"critical-pools-stay", critical(planjson.Change{Kind: "NodePool", Name: "a", Effect: "Replace"}), true},
		"the label leaves in a commit before":    {"critical-pools-stay", critical(planjson.Change{Kind: "NodePool", Name: "a", Effect: "None"}), true},
		"the class of a critical pool":           {"critical-pools-stay", critical(planjson.Change{Kind: "EC2NodeClass", Name: "default", Effect: "Replace"}), true},
		"nodes of a class that it had":           {"critical-pools-stay", critical(planjson.Change{Kind: "EC2NodeClass", Name: "old", Effect: "Replace", NodeClaims: []planjson.NodeClaim{{Pool: "a"}}}), true},
		"the class, without an effect":           {"critical-pools-stay", critical(planjson.Change{Kind: "EC2NodeClass", Name: "default", Effect: "None"}), false},
		"the class of another pool":              {"critical-pools-stay", critical(planjson.Change{Kind: "EC2NodeClass", Name: "other", Effect: "Replace"}), false},
		"another pool":                           {"critical-pools-stay", critical(planjson.Change{Kind: "NodePool", Name: "b", Effect: "Replace"}), false},
		"a limit that grows, and no limits":      {"limits-grow-slowly", from(exampleLimits("100"), none), true},
		"a limit that grows, and only of memory": {"limits-grow-slowly", from(exampleLimits("100"), memory), true},
		"a limit that grows, and no spec.limits": {"limits-grow-slowly", from(exampleLimits("100"), map[string]any{}), true},
		"a pool that had no limit":               {"limits-grow-slowly", from(none, exampleLimits("100")), false},
		"limits of nothing":                      {"pools-have-limits", onSpec(none), true},
		"limits of memory":                       {"pools-have-limits", onSpec(memory), true},
	} {
		t.Run(name, func(t *testing.T) {
			policy := documented(t)[c.policy]
			policy.Action = v1alpha1.PolicyHold
			held, err := compile(t, policy).Evaluate(t.Context(), c.plan)
			if err != nil || (len(held) == 1) != c.holds || c.holds && strings.Contains(held[0].Message, "cannot be evaluated") {
				t.Errorf("%v, %v; want it to hold: %v", held, err, c.holds)
			}
		})
	}
}

// TestDocumentedPolicies: each example compiles, is true of one plan and false of another.
func TestDocumentedPolicies(t *testing.T) {
	spot := planjson.NodeClaim{CapacityType: "spot", Zone: "eu-west-1a"}
	withNodes := func(p *planjson.Plan, nodes ...planjson.NodeClaim) *planjson.Plan {
		p.NodeClaims = nodes
		return p
	}
	expires := func(after string) map[string]any {
		return template(map[string]any{"spec": map[string]any{"expireAfter": after}})
	}
	for name, plans := range map[string]struct{ right, wrong *planjson.Plan }{
		"pools-have-limits":            {onSpec(exampleLimits("1")), onSpec(map[string]any{})},
		"few-nodes-at-a-time":          {&planjson.Plan{Changes: onSpec(nil).Changes, Totals: planjson.Totals{Nodes: 10, DisruptedNodes: 1}}, &planjson.Plan{Changes: onSpec(nil).Changes, Totals: planjson.Totals{Nodes: 10, DisruptedNodes: 2}}},
		"little-spot-in-a":             {withNodes(onSpec(nil), slices.Repeat([]planjson.NodeClaim{{}}, 20)...), withNodes(onSpec(nil), spot, planjson.NodeClaim{})},
		"limits-grow-slowly":           {onChange(planjson.Change{Name: "a", Spec: exampleLimits("150"), LiveSpec: exampleLimits(int64(100))}), onChange(planjson.Change{Name: "a", Spec: exampleLimits("151"), LiveSpec: exampleLimits("100")})},
		"critical-pools-stay":          {critical(planjson.Change{Kind: "NodePool", Name: "a", Effect: "None", Labels: tier}), critical(planjson.Change{Kind: "NodePool", Name: "a", Effect: "Replace", Labels: tier})},
		"critical-pools-leave-by-hand": {&planjson.Plan{Removals: []planjson.Removal{{Object: "NodePool/b"}}}, &planjson.Plan{Removals: []planjson.Removal{{Object: "NodePool/a", Labels: tier}}}},
		"big-pools-leave-by-hand":      {&planjson.Plan{Removals: []planjson.Removal{{Object: "NodePool/a", Nodes: 19}}}, &planjson.Plan{Removals: []planjson.Removal{{Object: "NodePool/a", Nodes: 20}}}},
		"pools-have-a-team":            {onSpec(template(map[string]any{"metadata": map[string]any{"labels": map[string]any{"team": "web"}}})), onSpec(template(map[string]any{"spec": map[string]any{}}))},
		"nodes-expire":                 {onSpec(expires("720h")), onSpec(expires("Never"))},
	} {
		policy, written := documented(t)[name]
		if !written {
			t.Errorf("%s is not in the how-to", name)
			continue
		}
		policy.Action = v1alpha1.PolicyHold
		compiled := compile(t, policy)
		if held, err := compiled.Evaluate(t.Context(), plans.right); err != nil || len(held) > 0 {
			t.Errorf("%s is false of what it should allow: %v, %v", name, held, err)
		}
		held, err := compiled.Evaluate(t.Context(), plans.wrong)
		if err != nil || len(held) != 1 || strings.Contains(held[0].Message, "cannot be evaluated") || strings.Contains(held[0].Message, "it is false") {
			t.Errorf("%s: %v, %v; want it to hold, in its own words", name, held, err)
		}
	}
	if found := documented(t); len(found) != 9 {
		t.Errorf("%d policies in the how-to, and 9 are tried here", len(found))
	}
}
