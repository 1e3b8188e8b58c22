package main

import (
	"bytes"
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// roles are Karpenter's rules by scope.
type roles struct {
	cluster   []source
	namespace []source
}

// source is a role of the chart.
type source struct {
	kind, name string
	rules      []rbacv1.PolicyRule
}

// collect returns the roles among a chart's objects. All namespaced ones are for kube-system, into which the chart is
// rendered.
func collect(objects []*unstructured.Unstructured) (*roles, error) {
	found := &roles{}
	for _, object := range objects {
		// A Role and a ClusterRole have their rules in the same field.
		var role rbacv1.Role
		kind := object.GetKind()
		if kind != "ClusterRole" && kind != "Role" {
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role); err != nil {
			return nil, fmt.Errorf("read %s %s: %w", kind, object.GetName(), err)
		}
		s := source{kind: kind, name: object.GetName(), rules: role.Rules}
		if kind == "ClusterRole" {
			found.cluster = append(found.cluster, s)
		} else {
			found.namespace = append(found.namespace, s)
		}
	}
	if len(found.cluster) == 0 || len(found.namespace) == 0 {
		return nil, fmt.Errorf("the chart renders %d ClusterRoles and %d Roles, and should render some of each",
			len(found.cluster), len(found.namespace))
	}
	return found, nil
}

const header = `# Generated from the charts of %s: make generate.
# Karpenter's own rights, which plumbline holds so that it may hand them on.
`

// yaml writes the roles by hand, because each rule has its reason in a comment.
func (r *roles) yaml(origin string) ([]byte, error) {
	var out bytes.Buffer
	fmt.Fprintf(&out, header, origin)
	for _, part := range []struct {
		kind      string
		namespace string
		from      []source
	}{
		{"ClusterRole", "", r.cluster},
		{"Role", "kube-system", r.namespace},
	} {
		writeHead(&out, part.kind, part.namespace)
		out.WriteString("rules:\n")
		for _, from := range part.from {
			for _, rule := range from.rules {
				if err := writeRule(&out, from, rule); err != nil {
					return nil, err
				}
			}
		}
		out.WriteString("---\n")
		writeHead(&out, part.kind+"Binding", part.namespace)
		fmt.Fprintf(&out, `roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: %s
  name: plumbline-charts-karpenter
subjects:
  - kind: ServiceAccount
    name: plumbline
    namespace: plumbline-system
`, part.kind)
		if part.kind == "ClusterRole" {
			out.WriteString("---\n")
		}
	}
	return out.Bytes(), nil
}

func writeHead(out *bytes.Buffer, kind, namespace string) {
	fmt.Fprintf(out, "apiVersion: rbac.authorization.k8s.io/v1\nkind: %s\nmetadata:\n  name: plumbline-charts-karpenter\n", kind)
	if namespace != "" {
		fmt.Fprintf(out, "  namespace: %s\n", namespace)
	}
	out.WriteString("  labels:\n    app.kubernetes.io/part-of: plumbline\n    plumbline.dev/role: charts\n")
}

func writeRule(out *bytes.Buffer, from source, rule rbacv1.PolicyRule) error {
	text, err := yaml.Marshal([]rbacv1.PolicyRule{rule})
	if err != nil {
		return fmt.Errorf("encode a rule of %s %s: %w", from.kind, from.name, err)
	}
	fmt.Fprintf(out, "  # %s %s\n", from.kind, from.name)
	for _, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		fmt.Fprintf(out, "  %s\n", line)
	}
	return nil
}
