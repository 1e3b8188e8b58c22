package charts

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/provision/charts/chartstest"
)

// TestValuesThatDoNotFitTheSchema: they are named, but not repeated.
func TestValuesThatDoNotFitTheSchema(t *testing.T) {
	archive := chartstest.Controller(t, "1.14.1")
	loaded, err := open(ControllerChart, "1.14.1", func() ([]byte, error) { return archive, nil })()
	if err != nil {
		t.Fatal(err)
	}
	loaded.Schema = []byte(`{"properties": {"secret": {"type": "object", "properties": {"a": {"const": "other"}}}, "replicas": {"type": "string"}}}`)
	_, failed := renderChart(loaded, Rendering{Release: "karpenter", Values: map[string]any{"secret": map[string]any{"a": "hunter2"}, "replicas": int64(1)}})
	want := &failure{Kind: failedValues, Words: "values.replicas, values.secret.a do not fit the chart's values.schema.json"}
	if diff := cmp.Diff(want, failed); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
