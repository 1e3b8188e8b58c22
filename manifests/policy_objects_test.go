package manifests

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/provision/charts"
)

// resources are the resources of the kinds.
var resources = map[string]string{
	"Deployment": "deployments", "Role": "roles", "ClusterRole": "clusterroles", "RoleBinding": "rolebindings", "ClusterRoleBinding": "clusterrolebindings",
	"Service": "services", "ServiceAccount": "serviceaccounts", "PodDisruptionBudget": "poddisruptionbudgets", "ServiceMonitor": "servicemonitors",
	"CustomResourceDefinition": "customresourcedefinitions", "Secret": "secrets", "Node": "nodes", "Pod": "pods", "NodeClaim": "nodeclaims", "Lease": "leases",
}

// realChart returns the rendered objects of Karpenter's own chart, by kind and name.
func realChart(t *testing.T) map[string]*unstructured.Unstructured {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/aws/karpenter-provider-aws").Output()
	if err != nil {
		t.Fatal(err)
	}
	found, err := charts.FromFolder(filepath.Join(strings.TrimSpace(string(out)), "charts"))
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := found.Controller(t.Context(), charts.Installation{Namespace: "kube-system", Cluster: "any", Region: "any"})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*unstructured.Unstructured{}
	for _, object := range rendered {
		drop(object.Object)
		all[object.GetKind()+" "+object.GetName()] = parse(t, marshal(t, object.Object))
	}
	return all
}

// drop removes nulls, as the API server does.
func drop(from map[string]any) {
	for key, value := range from {
		switch value := value.(type) {
		case nil:
			delete(from, key)
		case map[string]any:
			drop(value)
		}
	}
}

func marshal(t *testing.T, object any) string {
	t.Helper()
	text, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return object
}

// patched returns an object changed by a JSON patch in YAML.
func patched(t *testing.T, object *unstructured.Unstructured, text string) *unstructured.Unstructured {
	t.Helper()
	ops, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(ops)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := object.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if raw, err = patch.Apply(raw); err != nil {
		t.Fatal(err)
	}
	return parse(t, string(raw))
}
