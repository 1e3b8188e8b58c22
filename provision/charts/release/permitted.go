package release

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/provision/charts"
)

// Rendered is what a chart renders to for a release.
type Rendered struct {
	// Chart is its name: charts.CRDChart or charts.ControllerChart.
	Chart, Version string
	// Namespace of the release.
	Namespace string
	Objects   []*unstructured.Unstructured
}

// permitted asks whether what a chart renders to may be written.
func (t task) permitted(documents charts.Documents) error {
	if t.permit == nil || t.earlier {
		return nil
	}
	objects, err := documents.Objects()
	if err != nil {
		return &charts.MalformedError{Chart: t.Name, Version: t.Version, Err: err}
	}
	return t.permit(Rendered{Chart: t.Name, Version: t.Version, Namespace: t.namespace, Objects: objects})
}
