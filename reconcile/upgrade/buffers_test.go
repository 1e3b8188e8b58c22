package upgrade

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade/installtest"
	"github.com/plumbline-dev/plumbline/render"
)

// controllerChart returns charts of 1.14.1 whose controller has these feature gates.
func controllerChart(t *testing.T, gates string) *charts.Charts {
	t.Helper()
	dir := t.TempDir()
	const deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: karpenter}\nspec: {template: {spec: {containers: [{name: controller, env: [{name: FEATURE_GATES, value: \"GATES\"}]}]}}}\n"
	crd, err := yaml.Marshal(installtest.PoolCRD("weight", "v1"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"karpenter-crd/Chart.yaml":           "apiVersion: v2\nname: karpenter-crd\nversion: 1.14.1\n",
		"karpenter-crd/templates/pools.yaml": string(crd),
		"karpenter/Chart.yaml":               "apiVersion: v2\nname: karpenter\nversion: 1.14.1\n", "karpenter/values.yaml": "settings: {}\n",
		"karpenter/templates/deployment.yaml": strings.Replace(deployment, `"GATES"`, `"`+gates+`"`, 1),
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found, err := charts.FromFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestCapacityBuffersNeedTheirGate: a change of the charts that makes Karpenter ignore the CapacityBuffers in the
// cluster is refused, by the daemon and in a plan; the return to an earlier revision is not.
func TestCapacityBuffersNeedTheirGate(t *testing.T) {
	for name, c := range map[string]struct {
		// running and git are the gates of the controller before and after.
		running, git string
		unused       bool
		want         bool
	}{
		"Git turns it off":     {running: "CapacityBuffer=true", git: "CapacityBuffer=false", want: true},
		"a version without it": {running: "CapacityBuffer=true", git: "NodeRepair=false", want: true},
		"it stays on":          {running: "CapacityBuffer=true", git: "CapacityBuffer=true"},
		"it stays off":         {running: "CapacityBuffer=false", git: "CapacityBuffer=false"},
		"no version had it":    {running: "NodeRepair=true", git: "NodeRepair=false"},
		"there are no buffers": {running: "CapacityBuffer=true", git: "CapacityBuffer=false", unused: true},
	} {
		t.Run(name, func(t *testing.T) {
			objects := installtest.Installed()
			objects[0].(*appsv1.Deployment).Spec.Template.Spec.Containers = []corev1.Container{
				{Name: "controller", Env: []corev1.EnvVar{{Name: "FEATURE_GATES", Value: c.running}}},
			}
			b := newBed(t, objects...)
			b.helm.AsksPermit, b.helm.Kubernetes = true, "v1.33.0"
			s := b.step()
			s.Charts = controllerChart(t, c.git)
			s.Sync.Status.Karpenter.Version, s.Sync.Status.Karpenter.Identity = "1.14.1", "before"
			if !c.unused {
				buffer := &unstructured.Unstructured{Object: map[string]any{
					"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": render.CapacityBuffer, "metadata": map[string]any{"namespace": "shop", "name": "web"},
				}}
				s.Live.Objects = map[render.Ref]*plan.Object{render.RefOf(buffer): {Unstructured: buffer}}
			}
			for who, err := range map[string]error{"plan": s.WhyNot(t.Context()), "daemon": s.passGates(t.Context(), &Seen{})} {
				switch f := fault.Classify(err); {
				case !c.want && err != nil:
					t.Errorf("%s: %v", who, err)
				case c.want && (err == nil || f.Class != fault.Terminal || !strings.Contains(err.Error(), "CapacityBuffer/shop/web keeps: remove it first")):
					t.Errorf("%s: %v, want a refusal", who, err)
				}
			}
			if back := s.installation().Permit; back != nil {
				t.Error("an earlier revision is checked")
			}
		})
	}
}
