package charts

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// Rendered is what a chart renders to for a release.
type Rendered struct {
	// Chart is its name: CRDChart or ControllerChart.
	Chart, Version string
	// Namespace of the release.
	Namespace string
	Objects   []*unstructured.Unstructured
}

// permitted asks whether what a chart renders to may be written.
func (t task) permitted(documents []rendered) error {
	if t.permit == nil || t.earlier {
		return nil
	}
	what := Rendered{Chart: t.name, Version: t.version, Namespace: t.namespace}
	for _, document := range documents {
		object := &unstructured.Unstructured{}
		if err := unmarshal(document, &object.Object); err != nil {
			return &MalformedError{Chart: t.name, Version: t.version, Err: err}
		}
		if len(object.Object) > 0 { // a template may render to a comment alone
			what.Objects = append(what.Objects, object)
		}
	}
	return t.permit(what)
}
