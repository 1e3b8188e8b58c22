package manifests

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// healthChecks are the health checks of a NodeSync in the layout of argoproj/argo-cd's built-in ones, by their ConfigMaps. The
// first is offered upstream.
var healthChecks = map[string]string{
	"argocd/argocd-cm.yaml":         "argocd/resource_customizations/plumbline.dev/NodeSync",
	"argocd/argocd-cm-rollout.yaml": "argocd/rollout/plumbline.dev/NodeSync",
}

// TestHealthIsThatOfTheConfigMap: each ConfigMap's script is the one that the cases test.
func TestHealthIsThatOfTheConfigMap(t *testing.T) {
	for file, dir := range healthChecks {
		config := &corev1.ConfigMap{}
		load(t, file, config)
		script, err := os.ReadFile(filepath.Join(dir, "health.lua"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(config.Data["resource.customizations.health.plumbline.dev_NodeSync"], string(script)); diff != "" {
			t.Errorf("%s (-ConfigMap +file):\n%s", filepath.Join(dir, "health.lua"), diff)
		}
	}
}

// TestHealthHasItsCases: each health has a case, each case has a NodeSync, and no file is without a case.
// tests/sandbox/peers runs them like Argo CD's own tests, and the stories argo-application-health and argo-waits-for-us run the
// scripts in Argo CD.
func TestHealthHasItsCases(t *testing.T) {
	for _, dir := range healthChecks {
		t.Run(dir, func(t *testing.T) { checkCases(t, dir) })
	}
}

func checkCases(t *testing.T, dir string) {
	t.Helper()
	cases := struct {
		Tests []struct {
			HealthStatus struct{ Status, Message string }
			InputPath    string
		}
	}{}
	load(t, filepath.Join(dir, "health_test.yaml"), &cases)
	var healths, inputs []string
	for _, c := range cases.Tests {
		healths, inputs = append(healths, c.HealthStatus.Status), append(inputs, filepath.Join(dir, c.InputPath))
		sync := &v1alpha1.NodeSync{}
		load(t, inputs[len(inputs)-1], sync)
		if sync.Kind != v1alpha1.NodeSyncKind || c.HealthStatus.Message == "" {
			t.Errorf("%s is a %s, whose health says %q", c.InputPath, sync.Kind, c.HealthStatus.Message)
		}
	}
	slices.Sort(healths)
	if diff := cmp.Diff([]string{"Degraded", "Healthy", "Progressing", "Suspended"}, slices.Compact(healths)); diff != "" {
		t.Errorf("healths (-want +got):\n%s", diff)
	}
	files, err := filepath.Glob(filepath.Join(dir, "testdata", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(inputs)
	if diff := cmp.Diff(files, inputs); diff != "" {
		t.Errorf("files of cases (-there +named):\n%s", diff)
	}
}

// load decodes a YAML file strictly.
func load(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = yaml.UnmarshalStrict(text, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}
