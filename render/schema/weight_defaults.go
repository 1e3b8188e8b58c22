package schema

import (
	"encoding/json"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// maxDefaults bounds how many values the defaults of one CRD may make, counted where each is
// written: those of a released one make a tenth. A default is filled in with those of the schema
// below it, so that ten items in each of ten items, and so on, are a billion in a kilobyte.
const maxDefaults = 200

// fill counts what the default of a schema comes to once it is filled in
// (k8s.io/apiextensions-apiserver, pkg/apiserver/schema/defaulting/algorithm.go).
func (w *weight) fill(at string, s *apiextensionsv1.JSONSchemaProps) {
	if w.tooMany != "" {
		return
	}
	if w.countDefault(s); w.defaults > maxDefaults {
		w.tooMany = at
	}
}

func (w *weight) countDefault(s *apiextensionsv1.JSONSchemaProps) {
	var value any
	if s.Default == nil || w.defaults > maxDefaults || json.Unmarshal(s.Default.Raw, &value) != nil {
		return
	}
	w.count(value, s)
}

func (w *weight) count(value any, s *apiextensionsv1.JSONSchemaProps) {
	if w.defaults++; w.defaults > maxDefaults || s == nil {
		return
	}
	switch value := value.(type) {
	case map[string]any:
		w.countMap(value, s)
	case []any:
		var items *apiextensionsv1.JSONSchemaProps
		if s.Items != nil {
			items = s.Items.Schema
		}
		for _, item := range value {
			w.count(item, items)
		}
	}
}

func (w *weight) countMap(value map[string]any, s *apiextensionsv1.JSONSchemaProps) {
	for name, property := range s.Properties {
		if _, ok := value[name]; !ok {
			w.countDefault(&property)
		}
	}
	for name, is := range value {
		below, ok := s.Properties[name]
		switch {
		case ok:
			w.count(is, &below)
		case s.AdditionalProperties != nil:
			w.count(is, s.AdditionalProperties.Schema)
		default:
			w.count(is, nil)
		}
	}
}
