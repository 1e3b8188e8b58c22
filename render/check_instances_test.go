package render

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// TestInstancesThatContradict: what the names of types and families tell is compared with what
// else is asked for; what they do not tell, or may be newer, is let through.
func TestInstancesThatContradict(t *testing.T) {
	cases := map[string]struct {
		requirements string
		want         string
	}{
		"nothing is asked for": {"[]", ""},
		"a family of another category": {
			"[{key: karpenter.k8s.aws/instance-family, operator: In, values: [m5, m6i]}, {key: karpenter.k8s.aws/instance-category, operator: In, values: [c]}]",
			"none of karpenter.k8s.aws/instance-family [m5, m6i] fits karpenter.k8s.aws/instance-family In [m5, m6i], karpenter.k8s.aws/instance-category In [c]",
		},
		"one of them is of it":     {"[{key: karpenter.k8s.aws/instance-family, operator: In, values: [m5, c6i]}, {key: karpenter.k8s.aws/instance-category, operator: In, values: [c]}]", ""},
		"a family that is too old": {"[{key: karpenter.k8s.aws/instance-family, operator: In, values: [m5]}, {key: karpenter.k8s.aws/instance-generation, operator: Gt, values: ['5']}]", "no instance type meets these requirements together"},
		"a family that is new":     {"[{key: karpenter.k8s.aws/instance-family, operator: In, values: [m99zz]}, {key: karpenter.k8s.aws/instance-generation, operator: Gt, values: ['5']}]", ""},
		"a type of another family": {"[{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}, {key: karpenter.k8s.aws/instance-family, operator: In, values: [c5]}]", "none of node.kubernetes.io/instance-type [m5.large]"},
		"a type of another size":   {"[{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}, {key: karpenter.k8s.aws/instance-size, operator: NotIn, values: [large]}]", "none of node.kubernetes.io/instance-type [m5.large]"},
		"a type, and it is right":  {"[{key: node.kubernetes.io/instance-type, operator: In, values: [u-6tb1.112xlarge]}, {key: karpenter.k8s.aws/instance-category, operator: In, values: [u]}, {key: karpenter.k8s.aws/instance-generation, operator: Lt, values: ['2']}]", ""},
		"listed and excluded":      {"[{key: karpenter.k8s.aws/instance-family, operator: In, values: [m5]}, {key: karpenter.k8s.aws/instance-family, operator: NotIn, values: [m5]}]", "none of karpenter.k8s.aws/instance-family [m5]"},
		"an operator that is new":  {"[{key: karpenter.k8s.aws/instance-family, operator: In, values: [m5]}, {key: karpenter.k8s.aws/instance-generation, operator: Like, values: ['7']}]", ""},
		"at least a generation":    {"[{key: karpenter.k8s.aws/instance-family, operator: In, values: [m5]}, {key: karpenter.k8s.aws/instance-generation, operator: Gte, values: ['7']}]", "no instance type meets these requirements together"},
		"at most its generation":   {"[{key: karpenter.k8s.aws/instance-family, operator: In, values: [m5]}, {key: karpenter.k8s.aws/instance-generation, operator: Lte, values: ['5']}]", ""},
		"another label":            {"[{key: karpenter.k8s.aws/instance-family, operator: In, values: [m5]}, {key: team, operator: In, values: [data]}]", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			object := &unstructured.Unstructured{Object: map[string]any{}}
			if err := yaml.Unmarshal([]byte("kind: NodePool\nspec: {template: {spec: {requirements: "+c.requirements+"}}}"), &object.Object); err != nil {
				t.Fatal(err)
			}
			found := checkInstances(Object{Ref: Ref{Kind: NodePool, Name: "a"}, Desired: object})
			if (len(found) > 0) != (c.want != "") || len(found) > 0 && !strings.Contains(found[0].message, c.want) {
				t.Errorf("%+v, want %q", found, c.want)
			}
		})
	}
}
