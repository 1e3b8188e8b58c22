package render

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// placeholder is what other tools replace in a template, and plumbline does not: <<NAME>>, <NAME>, {{ name }}, $NAME, $(NAME),
// <%= name %>, #{NAME}# and the %{ directive } of Terraform.
var placeholder = regexp.MustCompile(`<<\s*([A-Za-z_][A-Za-z0-9_]*)\s*>>|<([A-Z][A-Z0-9_]*)>|\{\{\s*\.?([A-Za-z_][A-Za-z0-9_.]*)\s*\}\}` +
	`|\$([A-Za-z_][A-Za-z0-9_]*)|\$\(([A-Za-z_][A-Za-z0-9_]*)\)|<%[=-]?\s*([^%>]*?)\s*-?%>|#\{\s*([^{}]*?)\s*\}#|%\{\s*([^{}]*?)\s*\}`)

// warnOfPlaceholders names the first placeholder of a definition that nothing replaces, and the first escape in a script that
// reaches the node as it is. Shell uses the same text for itself, so that scripts are not searched for placeholders.
func warnOfPlaceholders(kind Kind, object Object) string {
	if object.Desired.GetAnnotations()[SubstituteAnnotation] == "disabled" {
		return "" // the text is as its author wants it
	}
	return sentences(warnOfPlaceholder(kind, object), warnOfEscapes(kind, object))
}

func warnOfPlaceholder(kind Kind, object Object) string {
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

// escape is how Flux and Terraform have a ${NAME} stay.
var escape = regexp.MustCompile(`\$\$\{([A-Za-z_][A-Za-z0-9_]*)[^}]*\}`)

// warnOfEscapes names the first escape of an unknown name in a script. Substitution leaves it there as it is, and bash reads $$ as
// its process ID.
func warnOfEscapes(kind Kind, object Object) string {
	for _, path := range kind.Scripts {
		text, _, _ := unstructured.NestedString(object.Desired.Object, strings.Split(path, ".")...)
		if at := escape.FindStringIndex(text); at != nil {
			found := text[at[0]:at[1]]
			return fmt.Sprintf("%s: line %d of %s has %s, where bash reads $$ as its process ID: write %s; unknown names stay as they are in %[3]s, without the escape of Flux and Terraform",
				object.Ref, 1+strings.Count(text[:at[0]], "\n"), path, found, found[1:])
		}
	}
	return ""
}

func mayHavePlaceholder(text string) bool { return strings.ContainsAny(text, "<{$") }

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
