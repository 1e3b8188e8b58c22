package render

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// placeholder is what documents and other tools' templates have for a value to be filled in:
// <<NAME>>, <NAME>, {{ name }}.
var placeholder = regexp.MustCompile(`<<\s*([A-Za-z_][A-Za-z0-9_]*)\s*>>|<([A-Z][A-Z0-9_]*)>|\{\{\s*\.?([A-Za-z_][A-Za-z0-9_.]*)\s*\}\}`)

// warnOfPlaceholders names the first placeholder of a definition that nothing fills in. Shell has
// such text for itself.
func warnOfPlaceholders(kind Kind, object Object) string {
	if !anyText(object.Desired.Object, mayHavePlaceholder) {
		return ""
	}
	at, found := findPlaceholder(kind, nil, object.Desired.Object)
	if found == nil {
		return ""
	}
	name := ""
	for _, one := range found[1:] {
		name += one
	}
	if !variableName.MatchString(name) {
		name = "NAME"
	}
	return fmt.Sprintf("%s: %s has %s, which nothing fills in: write ${%s}, and its value under substitute in %s where that is none of CLUSTER_NAME and REGION", object.Ref, at, found[0], name, FileName)
}

func mayHavePlaceholder(text string) bool { return strings.ContainsAny(text, "<{") }

func findPlaceholder(kind Kind, at *field.Path, value any) (*field.Path, []string) {
	switch v := value.(type) {
	case string:
		if mayHavePlaceholder(v) && !slices.Contains(kind.Scripts, at.String()) {
			return at, placeholder.FindStringSubmatch(v)
		}
	case []any:
		for i, item := range v {
			if place, found := findPlaceholder(kind, at.Index(i), item); found != nil {
				return place, found
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			place := field.NewPath(key)
			if at != nil {
				place = at.Child(key)
			}
			for _, one := range []any{key, v[key]} {
				if place, found := findPlaceholder(kind, place, one); found != nil {
					return place, found
				}
			}
		}
	}
	return nil, nil
}
