package render

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// TestInstancesThatContradict: the names of types and families are compared with the other requirements; what they do
// not tell, or what may be newer, is accepted.
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

// TestTypesAreThoseOfTheSDK: the table is as new as the linked SDK.
func TestTypesAreThoseOfTheSDK(t *testing.T) {
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/aws/aws-sdk-go-v2/service/ec2").Output()
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "types", "enums.go"))
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, found := range regexp.MustCompile(`InstanceType = "([a-z0-9-]+\.[a-z0-9-]+)"`).FindAllStringSubmatch(string(source), -1) {
		want = append(want, found[1])
	}
	for line := range strings.Lines(instanceTypes) {
		family, sizes, _ := strings.Cut(line, ":")
		for _, size := range strings.Fields(sizes) {
			got = append(got, family+"."+size)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(slices.Compact(want), got); diff != "" || len(want) < 1000 {
		t.Errorf("%d types (-want +got):\n%s", len(want), diff)
	}
}

// TestUnknownTypes: they result in a warning, and are never refused.
func TestUnknownTypes(t *testing.T) {
	cases := map[string]struct{ requirements, want string }{
		"nothing is asked for": {"[]", ""},
		"one that exists":      {"[{key: karpenter.k8s.aws/instance-family, operator: In, values: [m5, u7i-12tb]}]", ""},
		"one that does not": {
			"[{key: karpenter.k8s.aws/instance-family, operator: In, values: [m5, zz9]}]",
			"NodePool/a: karpenter.k8s.aws/instance-family [zz9]: this version of plumbline does not know this instance family",
		},
		"a type of one that does not":        {"[{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large, mm5.large]}]", "node.kubernetes.io/instance-type [mm5.large]"},
		"a size that a family does not have": {"[{key: node.kubernetes.io/instance-type, operator: In, values: [m5.large, m5.3xlarge]}]", "node.kubernetes.io/instance-type [m5.3xlarge]: this version of plumbline does not know this instance type"},
		"a part of a name":                   {"[{key: karpenter.k8s.aws/instance-family, operator: In, values: [m]}]", "[m]"},
		"one that is excluded":               {"[{key: karpenter.k8s.aws/instance-family, operator: NotIn, values: [zz9]}]", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			object := &unstructured.Unstructured{Object: map[string]any{}}
			if err := yaml.Unmarshal([]byte("kind: NodePool\nspec: {template: {spec: {requirements: "+c.requirements+"}}}"), &object.Object); err != nil {
				t.Fatal(err)
			}
			got := warnOfInstances(Object{Ref: Ref{Kind: NodePool, Name: "a"}, Desired: object})
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestWarningsAreBounded: a commit can have any number.
func TestWarningsAreBounded(t *testing.T) {
	objects := make([]Object, 8)
	for i := range objects[:7] {
		objects[i].Origin, objects[i].Warning = Origin{File: "nodes.yaml", Line: i + 1}, "odd"
	}
	want := []string{"nodes.yaml:1: odd", "nodes.yaml:2: odd", "nodes.yaml:3: odd", "nodes.yaml:4: odd", "nodes.yaml:5: odd", "and 2 more warnings like these"}
	if diff := cmp.Diff(want, warningsOn(remarks{}, objects)); diff != "" {
		t.Error(diff)
	}
}
