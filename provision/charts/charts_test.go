package charts

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// upstream returns the charts of Karpenter's own module.
func upstream(t *testing.T) *Charts {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/aws/karpenter-provider-aws").Output()
	if err != nil {
		t.Fatalf("find Karpenter's module: %v", err)
	}
	charts, err := FromFolder(filepath.Join(strings.TrimSpace(string(out)), "charts"))
	if err != nil {
		t.Fatal(err)
	}
	return charts
}

func TestUpstreamsCRDsAreKept(t *testing.T) {
	crds, err := upstream(t).CRDs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, crd := range crds {
		names = append(names, crd.Name)
		if crd.Annotations["helm.sh/resource-policy"] != "keep" {
			t.Errorf("%s is not kept when its release goes: %v", crd.Name, crd.Annotations)
		}
		if len(crd.Spec.Versions) == 0 || crd.Spec.Versions[0].Schema == nil {
			t.Errorf("%s has no schema", crd.Name)
		}
	}
	want := []string{
		"capacitybuffers.autoscaling.x-k8s.io", "ec2nodeclasses.karpenter.k8s.aws",
		"nodeclaims.karpenter.sh", "nodeoverlays.karpenter.sh", "nodepools.karpenter.sh",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("CRDs (-want +got):\n%s", diff)
	}
}

func TestUpstreamsControllerKnowsItsCluster(t *testing.T) {
	objects, err := upstream(t).Controller(t.Context(), Installation{Namespace: "karpenter", Cluster: "prod-eu", Region: "eu-west-1"})
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	variables := map[string]string{}
	for _, object := range objects {
		kinds = append(kinds, object.GetKind())
		if object.GetKind() != "Deployment" {
			continue
		}
		spec := object.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
		for _, item := range spec["containers"].([]any)[0].(map[string]any)["env"].([]any) {
			variable := item.(map[string]any)
			if value, ok := variable["value"].(string); ok {
				variables[variable["name"].(string)] = value
			}
		}
	}
	if variables["CLUSTER_NAME"] != "prod-eu" || variables["AWS_REGION"] != "eu-west-1" {
		t.Errorf("the controller runs with CLUSTER_NAME=%q AWS_REGION=%q", variables["CLUSTER_NAME"], variables["AWS_REGION"])
	}
	want := []string{
		"PodDisruptionBudget", "ServiceAccount", "ClusterRole", "ClusterRole", "ClusterRole",
		"ClusterRoleBinding", "ClusterRoleBinding", "Role", "Role", "RoleBinding", "RoleBinding", "Service", "Deployment",
	}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
}

func TestValuesThatDoNotRender(t *testing.T) {
	_, err := upstream(t).Controller(t.Context(), Installation{
		Namespace: "karpenter", Cluster: "prod-eu", Region: "eu-west-1",
		Values: map[string]any{"additionalClusterRoleRules": "nonsense"},
	})
	var failed *RenderError
	if !errors.As(err, &failed) || failed.Chart != ControllerChart {
		t.Errorf("Controller() = %v, want a RenderError of %s", err, ControllerChart)
	}
}

// TestQuantitiesOfADocument: a quantity that takes too long to parse is refused before Helm or a type parses it, and
// not repeated.
func TestQuantitiesOfADocument(t *testing.T) {
	deployment := func(cpu string) Documents {
		return Documents{{Source: "karpenter/templates/deployment.yaml", Text: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: karpenter}\nspec:\n  template:\n    spec:\n      containers:\n      - resources: {limits: {cpu: '" + cpu + "'}}\n"}}
	}
	if objects, err := deployment("500m").Objects(); err != nil || len(objects) != 1 {
		t.Errorf("%d objects, error %v, want 1 object", len(objects), err)
	}
	for name, cpu := range map[string]string{"digits": strings.Repeat("9", 900_000), "an exponent": "1e1000000000"} {
		t.Run(name, func(t *testing.T) {
			const want = "karpenter/templates/deployment.yaml renders to a quantity that is too much to read: spec.template.spec.containers[0].resources.limits.cpu"
			if _, err := deployment(cpu).Objects(); err == nil || err.Error() != want {
				t.Errorf("error %v, want %q", err, want)
			}
		})
	}
}

// TestUpstreamsDocumentsAreObjects: the rendered objects of Karpenter's own charts are decoded.
func TestUpstreamsDocumentsAreObjects(t *testing.T) {
	charts := upstream(t)
	for _, name := range []string{CRDChart, ControllerChart} {
		documents, err := charts.template(t.Context(), name, Installation{Namespace: "kube-system", Cluster: "prod-eu", Region: "eu-west-1"})
		if err != nil {
			t.Fatal(err)
		}
		if objects, err := documents.Objects(); err != nil || len(objects) == 0 {
			t.Errorf("%s: %d objects, error %v", name, len(objects), err)
		}
	}
}
