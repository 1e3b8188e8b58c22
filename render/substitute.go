package render

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/plumbline-dev/plumbline/render/document"
)

// SubstituteAnnotation with the value "disabled" disables substitution for an object.
const SubstituteAnnotation = "plumbline.dev/substitute"

var (
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	// variable matches ${NAME} at the start of a text.
	variable = regexp.MustCompile(`^\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)
)

// regionVariable is the built-in variable for the cluster's region.
const regionVariable = "REGION"

// builtIns returns the variables that every path has.
func builtIns(cluster Cluster) map[string]string {
	return map[string]string{"CLUSTER_NAME": cluster.Name, regionVariable: cluster.Region}
}

// variables returns all variables of ${NAME} with their values.
func (k *Karpenter) variables() map[string]string {
	all := maps.Clone(k.Substitute)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, builtIns(k.Cluster))
	return all
}

// substitution replaces ${NAME} in the strings of an object, keys included. It works on decoded values, so that no
// variable can change the structure of an object.
type substitution struct {
	variables map[string]string
	// scripts are the paths of fields that contain shell scripts.
	scripts  []string
	problems []problem
	// left is how many bytes the values of variables may add to one object.
	left int64
	// bytes is how many they have added. Once it exceeds left, nothing is substituted.
	bytes int64
}

// count counts the value of a variable, and reports whether it may be written: a value of a megabyte can be used in a
// text thousands of times.
func (s *substitution) count(value string) bool {
	if s.bytes > s.left {
		return false
	}
	s.bytes += int64(len(value))
	return s.bytes <= s.left
}

// anyText reports whether such is true for any string in a value, keys included.
func anyText(value any, such func(string) bool) bool {
	switch v := value.(type) {
	case string:
		return such(v)
	case []any:
		return slices.ContainsFunc(v, func(item any) bool { return anyText(item, such) })
	case map[string]any:
		for key, entry := range v {
			if such(key) || anyText(entry, such) {
				return true
			}
		}
	}
	return false
}

func mayHaveVariables(text string) bool { return strings.Contains(text, "${") }

// value replaces the variables in a value. shape is its schema; nil if unknown.
func (s *substitution) value(at *field.Path, value any, shape *structural.Structural) any {
	switch v := value.(type) {
	case string:
		if found := variable.FindStringSubmatch(v); found != nil && found[0] == v && takesNoText(shape) {
			return s.typed(at, v, found[1], shape.Type)
		}
		return s.text(at, v)
	case []any:
		var items *structural.Structural
		if shape != nil {
			items = shape.Items
		}
		list := make([]any, 0, len(v))
		for i, item := range v {
			list = append(list, s.value(at.Index(i), item, items))
		}
		return list
	case map[string]any:
		return s.entries(at, v, shape)
	default:
		return value
	}
}

// takesNoText reports whether a schema requires another type than a string.
func takesNoText(shape *structural.Structural) bool {
	return shape != nil && !shape.XIntOrString && slices.Contains([]string{"integer", "number", "boolean", "array", "object"}, shape.Type)
}

// typed returns the value of a variable for a field that is not a string: it is parsed as YAML. So ${NAME} can be a
// number or a list there, while in a string field it always remains a string.
func (s *substitution) typed(at *field.Path, text, name, wanted string) any {
	value, known := s.variables[name]
	if !known {
		return s.text(at, text)
	}
	if !s.count(value) {
		return nil
	}
	documents, err := document.Parse([]byte(value))
	if err == nil && len(documents) == 1 && isOfType(documents[0].Value, wanted) {
		return documents[0].Value
	}
	s.complain(at, "%s must be of type %s, and ${%s} is %q under substitute in %s: correct it there",
		at, wanted, name, excerpt(value), FileName)
	return nil
}

// isOfType reports whether a value has a type of OpenAPI.
func isOfType(value any, wanted string) bool {
	switch value.(type) {
	case bool:
		return wanted == "boolean"
	case int64:
		return wanted == "integer" || wanted == "number"
	case float64:
		return wanted == "number"
	case []any:
		return wanted == "array"
	case map[string]any:
		return wanted == "object"
	default:
		return false
	}
}

// property returns the schema of an entry of an object; nil if unknown.
func property(shape *structural.Structural, key string) *structural.Structural {
	if shape == nil {
		return nil
	}
	if of, ok := shape.Properties[key]; ok {
		return &of
	}
	if shape.AdditionalProperties != nil {
		return shape.AdditionalProperties.Structural
	}
	return nil
}

func (s *substitution) entries(at *field.Path, entries map[string]any, shape *structural.Structural) map[string]any {
	replaced := make(map[string]any, len(entries))
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		place := field.NewPath(key)
		if at != nil {
			place = at.Child(key)
		}
		name := s.text(place, key)
		if _, twice := replaced[name]; twice {
			s.complain(place, "two keys become %q once they are substituted", name)
		}
		replaced[name] = s.value(place, entries[key], property(shape, name))
	}
	return replaced
}

func (s *substitution) text(at *field.Path, text string) string {
	if !mayHaveVariables(text) {
		return text
	}
	if slices.Contains(s.scripts, at.String()) {
		return s.script(text)
	}
	var out strings.Builder
	for text != "" {
		switch {
		case strings.HasPrefix(text, "$${"):
			out.WriteString("${")
			text = text[3:]
		case strings.HasPrefix(text, "${"):
			found := variable.FindStringSubmatch(text)
			if found == nil {
				s.complain(at, "%s is not understood: only ${NAME} is replaced; write $${ for a ${ that stays", excerpt(text))
				return out.String()
			}
			value, known := s.variables[found[1]]
			if !known {
				s.complain(at, "${%s} is not known: add it to substitute in %s, or write $${%s} if it is to stay", found[1], FileName, found[1])
			}
			if s.count(value) {
				out.WriteString(value)
			}
			text = text[len(found[0]):]
		default:
			out.WriteByte(text[0])
			text = text[1:]
		}
	}
	return out.String()
}

// script does not change what belongs to the shell: it replaces only ${NAME} of a known name, and $${NAME} of a known
// name becomes ${NAME}.
func (s *substitution) script(text string) string {
	var out strings.Builder
	for text != "" {
		escaped := strings.HasPrefix(text, "$${")
		if escaped || strings.HasPrefix(text, "${") {
			start := 0
			if escaped {
				start = 1
			}
			if found := variable.FindStringSubmatch(text[start:]); found != nil {
				if value, known := s.variables[found[1]]; known {
					if escaped {
						value = found[0]
					}
					if s.count(value) {
						out.WriteString(value)
					}
					text = text[start+len(found[0]):]
					continue
				}
			}
		}
		out.WriteByte(text[0])
		text = text[1:]
	}
	return out.String()
}

func (s *substitution) complain(at *field.Path, format string, args ...any) {
	if len(s.problems) >= maxListed {
		return // a megabyte of ${ contains as many mistakes
	}
	s.problems = append(s.problems, problem{at.String(), fmt.Sprintf(format, args...)})
}

// excerpt returns the start of a text for a message.
func excerpt(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	if end := strings.IndexByte(text, '}'); end >= 0 {
		text = text[:end+1]
	}
	if runes := []rune(text); len(runes) > 40 {
		return string(runes[:39]) + "…"
	}
	return text
}
