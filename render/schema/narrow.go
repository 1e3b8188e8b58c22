package schema

import structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"

// narrow is a schema without the places that lead to none of those that are wanted; nil where
// nothing is left. The API server's functions walk a whole object beside the schema, with copies
// and a path for each place, for the few places that have a default or a type of list.
func narrow(s *structural.Structural, wanted func(*structural.Structural) bool) *structural.Structural {
	if s == nil {
		return nil
	}
	left := *s
	left.Items, left.Properties = narrow(s.Items, wanted), map[string]structural.Structural{}
	for name, property := range s.Properties {
		if on := narrow(&property, wanted); on != nil {
			left.Properties[name] = *on
		}
	}
	if left.AdditionalProperties = nil; s.AdditionalProperties != nil {
		if on := narrow(s.AdditionalProperties.Structural, wanted); on != nil {
			left.AdditionalProperties = &structural.StructuralOrBool{Structural: on}
		}
	}
	if left.Items == nil && len(left.Properties) == 0 && left.AdditionalProperties == nil && !wanted(s) {
		return nil
	}
	return &left
}

func hasDefault(s *structural.Structural) bool { return s.Default.Object != nil }

// isSetOrMap says whether items of a list may not be there twice.
func isSetOrMap(s *structural.Structural) bool {
	return s.XListType != nil && *s.XListType != "atomic"
}

func isEmbedded(s *structural.Structural) bool { return s.XEmbeddedResource }

// hasNull says whether there is a null in a value of JSON.
func hasNull(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case map[string]any:
		for _, field := range value {
			if hasNull(field) {
				return true
			}
		}
	case []any:
		for _, item := range value {
			if hasNull(item) {
				return true
			}
		}
	}
	return false
}
