package render

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// TestRoomForTheBudgetThatStopsARollout: Karpenter allows 50 budgets, and those only for drift do not count.
func TestRoomForTheBudgetThatStopsARollout(t *testing.T) {
	for name, c := range map[string]struct {
		budgets, drifted int
		refused          bool
	}{
		"none": {}, "49": {budgets: 49}, "50": {budgets: 50, refused: true}, "50, one of them for drift": {budgets: 50, drifted: 1, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			var all []any
			for i := range c.budgets {
				budget := map[string]any{"nodes": "10%"}
				if i < c.drifted {
					budget["reasons"] = []any{"Drifted"}
				}
				all = append(all, budget)
			}
			object := Object{Ref: Ref{Kind: NodePool, Name: "general"}, Desired: &unstructured.Unstructured{Object: map[string]any{
				"spec": map[string]any{"disruption": map[string]any{"budgets": all}},
			}}}
			var says []string
			for _, p := range checkDefinition(object) {
				if text := p.message; strings.Contains(text, "disruption budgets") {
					says = append(says, text)
				}
			}
			if (len(says) > 0) != c.refused || c.refused && !strings.Contains(says[0], "NodePool/general: it has 50 disruption budgets, but at most 49 are allowed") {
				t.Errorf("it says %q", says)
			}
		})
	}
}

// TestBudgetsByReason: Karpenter may disrupt all nodes of a NodePool at once for a reason that no budget limits.
func TestBudgetsByReason(t *testing.T) {
	const consolidates = "consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 30s"
	for name, c := range map[string]struct{ disruption, want string }{
		"Karpenter's default":       {"{" + consolidates + "}", ""},
		"for all reasons":           {"{" + consolidates + ", budgets: [{nodes: 10%}]}", ""},
		"for drift":                 {"{" + consolidates + ", budgets: [{nodes: 10%, reasons: [Drifted]}]}", "NodePool/a: no disruption budget limits Empty and Underutilized: Karpenter may disrupt all of its nodes at a time for them; add a budget without reasons"},
		"for consolidation":         {"{" + consolidates + ", budgets: [{nodes: 10%, reasons: [Empty, Underutilized]}]}", "NodePool/a: no disruption budget limits Drifted: Karpenter may disrupt all of its nodes at a time for it; add a budget without reasons"},
		"for drift, of empty nodes": {"{consolidationPolicy: WhenEmpty, consolidateAfter: 30s, budgets: [{nodes: 10%, reasons: [Drifted]}]}", "NodePool/a: no disruption budget limits Empty: "},
		"never consolidated":        {"{consolidationPolicy: WhenEmpty, consolidateAfter: Never, budgets: [{nodes: 10%, reasons: [Drifted]}]}", ""},
		"at certain hours": {
			"{" + consolidates + `, budgets: [{nodes: "0", schedule: "0 8 * * 1-5", duration: 10h}]}`,
			`NodePool/a: disruption budgets limit Drifted, Empty and Underutilized only at "0 8 * * 1-5" for 10h (UTC): at all other times Karpenter may disrupt all of its nodes for them; add a budget without a schedule`,
		},
		"at certain hours, and always": {"{" + consolidates + `, budgets: [{nodes: "0", schedule: "0 8 * * 1-5", duration: 10h}, {nodes: 10%}]}`, ""},
		"both": {
			"{" + consolidates + `, budgets: [{nodes: "0", schedule: "0 8 * * *", duration: 1h, reasons: [Drifted]}]}`,
			`NodePool/a: no disruption budget limits Empty and Underutilized: Karpenter may disrupt all of its nodes at a time for them; add a budget without reasons; NodePool/a: disruption budgets limit Drifted only at "0 8 * * *" for 1h (UTC)`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var disruption map[string]any
			if err := yaml.Unmarshal([]byte(c.disruption), &disruption); err != nil {
				t.Fatal(err)
			}
			object := Object{Ref: Ref{Kind: NodePool, Name: "a"}, Desired: &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"disruption": disruption}}}}
			if got := warnOfBudgets(object); !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// TestRequirementsThatContradict: on one label they are refused, because the NodePool would be Ready, and launch no
// node.
func TestRequirementsThatContradict(t *testing.T) {
	cases := map[string]struct {
		requirements, labels string
		want                 string
	}{
		"two lists without a common value": {"[{key: kubernetes.io/arch, operator: In, values: [amd64]}, {key: kubernetes.io/arch, operator: In, values: [arm64]}]", "", "the requirements on kubernetes.io/arch (the labels of the template are among them) contradict each other: In [amd64], In [arm64]"},
		"two lists with one":               {"[{key: kubernetes.io/arch, operator: In, values: [amd64, arm64]}, {key: kubernetes.io/arch, operator: In, values: [arm64]}]", "", ""},
		"listed and excluded":              {"[{key: team, operator: In, values: [a]}, {key: team, operator: NotIn, values: [a, b]}]", "", "In [a], NotIn [a, b]"},
		"listed, one excluded":             {"[{key: team, operator: In, values: [a, c]}, {key: team, operator: NotIn, values: [a, b]}]", "", ""},
		"absent and listed":                {"[{key: team, operator: DoesNotExist}, {key: team, operator: In, values: [a]}]", "", "DoesNotExist, In [a]"},
		"absent and present":               {"[{key: team, operator: DoesNotExist}, {key: team, operator: Exists}]", "", "DoesNotExist, Exists"},
		"absent and not one value":         {"[{key: team, operator: DoesNotExist}, {key: team, operator: NotIn, values: [a]}]", "", ""},
		"no number between":                {"[{key: karpenter.k8s.aws/instance-cpu, operator: Gt, values: ['8']}, {key: karpenter.k8s.aws/instance-cpu, operator: Lt, values: ['9']}]", "", "Gt [8], Lt [9]"},
		"a number between":                 {"[{key: karpenter.k8s.aws/instance-cpu, operator: Gt, values: ['8']}, {key: karpenter.k8s.aws/instance-cpu, operator: Lt, values: ['10']}]", "", ""},
		"one number":                       {"[{key: karpenter.k8s.aws/instance-cpu, operator: Gte, values: ['8']}, {key: karpenter.k8s.aws/instance-cpu, operator: Lte, values: ['8']}]", "", ""},
		"at least more than at most":       {"[{key: karpenter.k8s.aws/instance-cpu, operator: Gte, values: ['9']}, {key: karpenter.k8s.aws/instance-cpu, operator: Lte, values: ['8']}]", "", "Gte [9], Lte [8]"},
		"above what is listed":             {"[{key: karpenter.k8s.aws/instance-cpu, operator: In, values: ['4', '8']}, {key: karpenter.k8s.aws/instance-cpu, operator: Gt, values: ['8']}]", "", "In [4, 8], Gt [8]"},
		"another label of the template":    {"[{key: team, operator: In, values: [a]}]", "{team: b}", "In [a], In [b]"},
		"the same label of the template":   {"[{key: team, operator: In, values: [a, b]}]", "{team: b}", ""},
		"an operator that is new":          {"[{key: team, operator: In, values: [a]}, {key: team, operator: Like, values: [b]}]", "", ""},
		"different labels":                 {"[{key: team, operator: In, values: [a]}, {key: tier, operator: DoesNotExist}]", "", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			object := &unstructured.Unstructured{Object: map[string]any{}}
			labels := c.labels
			if labels == "" {
				labels = "{}"
			}
			if err := yaml.Unmarshal([]byte("kind: NodePool\nspec: {template: {metadata: {labels: "+labels+"}, spec: {requirements: "+c.requirements+"}}}"), &object.Object); err != nil {
				t.Fatal(err)
			}
			found := checkTogether(Object{Ref: Ref{Kind: NodePool, Name: "a"}, Desired: object})
			if (len(found) > 0) != (c.want != "") || len(found) > 0 && !strings.Contains(found[0].message, c.want) {
				t.Errorf("%+v, want %q", found, c.want)
			}
		})
	}
}
