package charts

import (
	"strings"
	"testing"
)

// TestQuantitiesOfADocument: what takes too long to read is refused before Helm or a type
// reads it, and not repeated.
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

// TestUpstreamsDocumentsAreObjects: what Karpenter's own charts render to is read.
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
