package charts

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/confine/weigh"
)

// Document is one YAML document that a chart renders to.
type Document struct {
	// Source is the template that it comes from.
	Source, Text string
}

// Documents are all that a chart renders to, in the order in which Helm writes them.
type Documents []Document

// Manifest is what Helm stores of a release, and compares with.
func (d Documents) Manifest() string {
	var text strings.Builder
	for _, one := range d {
		fmt.Fprintf(&text, "---\n# Source: %s\n%s\n", one.Source, one.Text)
	}
	return text.String()
}

// Objects decodes the documents. A template that renders only to a comment gives no
// object. The error has no text of a document.
func (d Documents) Objects() ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for _, one := range d {
		object := &unstructured.Unstructured{}
		if err := one.decode(&object.Object); err != nil {
			return nil, err
		}
		if unfit := weigh.Quantities(object.Object); len(unfit) > 0 {
			return nil, fmt.Errorf("%s renders to a quantity that is too much to read: %s", one.Source, unfit[0].Path)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
	return objects, nil
}

// decode reads a document. Its error has none of the document's text.
func (d Document) decode(into any) error {
	if err := weigh.YAML([]byte(d.Text)); err != nil {
		return fmt.Errorf("%s renders to too much: %w", d.Source, err)
	}
	if err := yaml.Unmarshal([]byte(d.Text), into); err != nil {
		return fmt.Errorf("%s renders to something that is not an object", d.Source)
	}
	return nil
}
