package manifests

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"sigs.k8s.io/yaml"
)

// atHelm is the only object of the base that the chart does not contain: `helm install --create-namespace` creates the
// namespace.
const atHelm = "Namespace /plumbline-system"

// renderChart runs `helm template plumbline chart -n NAMESPACE` with values in YAML: it returns what is installed, and
// the Pods of `helm test`.
func renderChart(t *testing.T, namespace, values string) (installed, tests []object, err error) {
	t.Helper()
	loaded, err := loader.LoadDir("chart")
	if err != nil {
		t.Fatal(err)
	}
	given := map[string]any{}
	if err := yaml.UnmarshalStrict([]byte(values), &given); err != nil {
		t.Fatal(err)
	}
	with, err := chartutil.ToRenderValues(loaded, given, chartutil.ReleaseOptions{Name: "plumbline", Namespace: namespace}, nil)
	if err != nil {
		return nil, nil, err
	}
	files, err := engine.Engine{Strict: true}.Render(loaded, with)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		for _, document := range bytes.Split([]byte("\n"+files[name]), []byte("\n---\n")) {
			var o object
			var content map[string]any
			if err := yaml.UnmarshalStrict(document, &content); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, document)
			}
			if o.text, err = yaml.Marshal(content); err != nil {
				t.Fatal(err)
			}
			switch err := yaml.Unmarshal(o.text, &o); {
			case err != nil:
				t.Fatal(err)
			case o.Kind == "":
			case o.Metadata.Annotations["helm.sh/hook"] == "test":
				tests = append(tests, o)
			default:
				installed = append(installed, o)
			}
		}
	}
	return installed, tests, nil
}

// rendered returns what the chart installs with valid values.
func rendered(t *testing.T, namespace, values string) []object {
	t.Helper()
	installed, _, err := renderChart(t, namespace, values)
	if err != nil {
		t.Fatal(err)
	}
	return installed
}

// fields returns the content of all objects, by object name.
func fields(t *testing.T, objects []object) map[string]any {
	t.Helper()
	all := map[string]any{}
	for _, o := range objects {
		var content map[string]any
		if err := yaml.Unmarshal(o.text, &content); err != nil {
			t.Fatal(err)
		}
		if all[o.String()] != nil {
			t.Errorf("there are two of %s", o)
		}
		all[o.String()] = content
	}
	return all
}

// TestTheChartIsTheBase: object by object and field by field, in each variant.
func TestTheChartIsTheBase(t *testing.T) {
	for values, folders := range map[string][]string{
		"":                        {"."},
		"charts: {manage: false}": {"external"},
		"{serviceMonitor: {enabled: true}, prometheusRule: {enabled: true}, dashboard: {enabled: true}}": {".", "monitoring"},
	} {
		t.Run(values, func(t *testing.T) {
			var base []object
			for _, folder := range folders {
				base = append(base, build(t, folder)...)
			}
			want := fields(t, base)
			delete(want, atHelm)
			if diff := cmp.Diff(want, fields(t, rendered(t, "plumbline-system", values))); diff != "" {
				t.Errorf("the chart differs from %v: make generate (-base +chart):\n%s", folders, diff)
			}
		})
	}
}
