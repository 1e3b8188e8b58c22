package evaluate

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/render"
)

// chartWith returns a main chart with these default values.
func chartWith(t *testing.T, values string) *charts.Charts {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"Chart.yaml": "apiVersion: v2\nname: karpenter\nversion: 1.14.1\n", "values.yaml": values} {
		if err := os.MkdirAll(filepath.Join(dir, "karpenter"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "karpenter", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found, err := charts.FromFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// controllerWith returns a cluster whose controller has these feature gates; none if it has no controller.
func controllerWith(t *testing.T, gates string) *cluster.View {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := appsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme)
	if gates != "" {
		c = c.WithObjects(&appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "karpenter", Labels: cluster.ControllerLabels()},
			Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{
				{Name: "controller", Image: "karpenter:1.15.0", Env: []corev1.EnvVar{
					{Name: "FEATURE_GATES", Value: gates}, {Name: "AWS_FEATURE_GATES", Value: "NodeClassCEL=false"},
				}},
			}}}},
		})
	}
	built := c.Build()
	return &cluster.View{Cached: built, Uncached: built, Memory: &cluster.Memory{}}
}

// TestDefinitionsThatKarpenterIgnores: by the values that plumbline installs the chart with, or by the controller's
// environment if another tool installs it, or if the charts are not changed.
func TestDefinitionsThatKarpenterIgnores(t *testing.T) {
	const off = "NodeOverlay/prefer has no effect: Karpenter's feature gate NodeOverlay is off: set settings.featureGates.nodeOverlay: true in the chart's values"
	gate := func(on any) map[string]any {
		return map[string]any{"settings": map[string]any{"featureGates": map[string]any{"nodeOverlay": on}}}
	}
	for name, c := range map[string]struct {
		management  render.Management
		values      map[string]any
		defaults    string
		controller  string
		notUpgraded error
		unused      bool
		want        []string
	}{
		"Git has none":                   {values: gate(false), unused: true},
		"Git turns it on":                {values: gate(true), defaults: "settings: {featureGates: {nodeOverlay: false}}\n"},
		"Git turns it off":               {values: gate(false), defaults: "settings: {featureGates: {nodeOverlay: true}}\n", want: []string{off}},
		"Git turns it on, as a text":     {values: gate("true"), defaults: "settings: {featureGates: {nodeOverlay: false}}\n"},
		"Git turns it off, as a text":    {values: gate("false"), defaults: "settings: {featureGates: {nodeOverlay: true}}\n", want: []string{off}},
		"Git has no word for it":         {values: gate("yes"), defaults: "settings: {featureGates: {nodeOverlay: false}}\n"},
		"off by default":                 {defaults: "settings: {featureGates: {nodeOverlay: false}}\n", controller: "NodeOverlay=true", want: []string{off}},
		"on by default":                  {defaults: "settings: {featureGates: {nodeOverlay: true}}\n"},
		"a version without it":           {defaults: "replicas: 2\n", want: []string{off}},
		"on, in a change not made":       {values: gate(true), controller: "NodeRepair=false,NodeOverlay=false", notUpgraded: os.ErrInvalid, want: []string{off}},
		"of another tool, on":            {management: render.External, values: gate(false), controller: "NodeOverlay=true"},
		"of another tool, off":           {management: render.External, controller: "NodeOverlay=false", want: []string{off}},
		"of another tool, unknown":       {management: render.External, controller: "NodeRepair=false"},
		"of another tool, no controller": {management: render.External},
	} {
		t.Run(name, func(t *testing.T) {
			set := &render.Set{Objects: []render.Object{{Ref: render.Ref{Kind: render.NodePool, Name: "a"}}}}
			if !c.unused {
				set.Objects = append(set.Objects, render.Object{Ref: render.Ref{Kind: render.NodeOverlay, Name: "prefer"}})
			}
			if c.management == "" {
				c.management = render.Managed
			}
			s := &DesiredStep{
				Desired:     &Desired{Karpenter: &render.Karpenter{Management: c.management, Namespace: "kube-system"}, Set: set, Values: charts.Values{Merged: c.values}},
				View:        controllerWith(t, c.controller),
				NotUpgraded: c.notUpgraded,
			}
			if c.defaults != "" {
				s.Charts = chartWith(t, c.defaults)
			}
			if s.Charts == nil && c.management == render.Managed {
				s.Charts = chartWith(t, "{}\n")
			}
			got, err := s.SwitchedOff(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestBuffersCountWhileTheirGateIsInForce: a commit that turns a gate off, or on, does not make Karpenter ignore the
// buffers before it is applied.
func TestBuffersCountWhileTheirGateIsInForce(t *testing.T) {
	for name, c := range map[string]struct {
		controller, git string
		unused, want    bool
	}{
		"on, and Git turns it off":  {controller: "CapacityBuffer=true", git: "false"},
		"on, and Git keeps it":      {controller: "CapacityBuffer=true", git: "true"},
		"off, and Git turns it on":  {controller: "CapacityBuffer=false", git: "true"},
		"off, and Git keeps it off": {controller: "CapacityBuffer=false", git: "false", want: true},
		"off, but on further on":    {controller: "CapacityBuffer=false,CapacityBuffer=true", git: "false"},
		"no controller":             {git: "false"},
		"no buffers":                {controller: "CapacityBuffer=false", git: "false", unused: true},
	} {
		s := &DesiredStep{
			Desired: &Desired{Karpenter: &render.Karpenter{Management: render.Managed, Namespace: "kube-system"}, Charts: chartWith(t, "settings: {featureGates: {capacityBuffer: "+c.git+"}}\n")},
			View:    controllerWith(t, c.controller),
		}
		got, err := s.ignoredThroughout(t.Context(), func(kind string) bool { return kind == render.CapacityBuffer && !c.unused })
		if err != nil || got[render.CapacityBuffer] != c.want {
			t.Errorf("%s: ignored %v (%v), want %t", name, got, err, c.want)
		}
	}
}

// TestExpressionsThatKarpenterRefuses: the gate for expressions in spec.kubelet is off, unless Git turns it on. A
// quantity is no expression.
func TestExpressionsThatKarpenterRefuses(t *testing.T) {
	const off = "EC2NodeClass/a has an expression in spec.kubelet, and Karpenter's feature gate NodeClassCEL is off, so that it launches no node: set settings.awsFeatureGates.nodeClassCEL: true in the chart's values"
	gates := func(on bool) map[string]any {
		return map[string]any{"settings": map[string]any{"awsFeatureGates": map[string]any{"nodeClassCEL": on}}}
	}
	for name, c := range map[string]struct {
		management render.Management
		values     map[string]any
		kubelet    map[string]any
		want       []string
	}{
		"none":                  {kubelet: map[string]any{"maxPods": int64(58), "kubeReserved": map[string]any{"cpu": "100m"}}},
		"off by default":        {kubelet: map[string]any{"maxPods": "vcpus * 10"}, want: []string{off}},
		"Git turns it on":       {values: gates(true), kubelet: map[string]any{"maxPods": "vcpus * 10"}},
		"Git turns it off":      {values: gates(false), kubelet: map[string]any{"kubeReserved": map[string]any{"cpu": "vcpus * 30"}}, want: []string{off}},
		"of another tool, off":  {management: render.External, values: gates(true), kubelet: map[string]any{"maxPods": "vcpus * 10"}, want: []string{off}},
		"of another tool, none": {management: render.External, kubelet: map[string]any{"maxPods": int64(58)}},
	} {
		t.Run(name, func(t *testing.T) {
			class := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"kubelet": c.kubelet}}}
			set := &render.Set{Objects: []render.Object{{Ref: render.Ref{Kind: render.EC2NodeClass, Name: "a"}, Desired: class}}}
			if c.management == "" {
				c.management = render.Managed
			}
			s := &DesiredStep{
				Desired: &Desired{Karpenter: &render.Karpenter{Management: c.management, Namespace: "kube-system"}, Set: set, Values: charts.Values{Merged: c.values}},
				View:    controllerWith(t, "NodeOverlay=true"),
			}
			if c.management == render.Managed {
				s.Charts = chartWith(t, "settings: {awsFeatureGates: {nodeClassCEL: false}}\n")
			}
			got, err := s.SwitchedOff(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
