package render

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// TestRequirementsThatContradict on one label are refused: the NodePool would be Ready, and
// launch no node.
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
