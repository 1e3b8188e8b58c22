package template

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Template is a parsed template. Values are those of encoding/json: strings, float64, bool, nil, []any, map[string]any.
type Template struct {
	Text        string               `json:"-"` // as it was given
	Version     string               `json:"AWSTemplateFormatVersion"`
	Description string               `json:"Description"`
	Metadata    map[string]any       `json:"Metadata"`
	Parameters  map[string]Parameter `json:"Parameters"`
	Mappings    map[string]any       `json:"Mappings"`
	Conditions  map[string]any       `json:"Conditions"`
	Resources   map[string]Resource  `json:"Resources"`
	Outputs     map[string]Output    `json:"Outputs"`
}

// Parameter is a declared parameter.
type Parameter struct {
	Type                  string
	Description           string
	Default               any
	NoEcho                any
	AllowedValues         []any
	AllowedPattern        string
	ConstraintDescription string
	MinLength, MaxLength  any
	MinValue, MaxValue    any
}

// Resource is a declared resource. The policies are Delete, Retain, RetainExceptOnCreate or empty.
type Resource struct {
	Type                string
	Condition           string
	DependsOn           names
	DeletionPolicy      string
	UpdateReplacePolicy string
	Metadata            map[string]any
	Properties          map[string]any
}

// Output is a declared output. Export is not supported.
type Output struct {
	Description string
	Condition   string
	Value       any
}

// names is one name or several.
type names []string

// UnmarshalJSON implements json.Unmarshaler.
func (n *names) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*n = names{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(n))
}

// Parse reads a template and checks its structure and references. The error has CloudFormation's words.
func Parse(text string) (*Template, error) {
	value, err := decode(text)
	if err != nil {
		return nil, err
	}
	content, err := json.Marshal(value)
	if err != nil {
		return nil, invalid("Template format error: %v", err)
	}
	t := &Template{Text: text}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(t); err != nil {
		return nil, formatError("%s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return t, t.check()
}

// Error is an error in CloudFormation's own words, which begin with a capital letter.
type Error string

// Error implements error.
func (e Error) Error() string { return string(e) }

func invalid(format string, args ...any) error { return Error(fmt.Sprintf(format, args...)) }

func formatError(format string, args ...any) error {
	return invalid("Template format error: "+format, args...)
}

func (t *Template) check() error {
	if len(t.Resources) == 0 {
		return formatError("At least one Resources member must be defined.")
	}
	for _, name := range t.Names() {
		r := t.Resources[name]
		if r.Type == "" {
			return formatError("[/Resources/%s] Every Resources object must contain a Type member.", name)
		}
		for _, policy := range []string{r.DeletionPolicy, r.UpdateReplacePolicy} {
			if !slices.Contains([]string{"", "Delete", "Retain", "RetainExceptOnCreate", "Snapshot"}, policy) {
				return formatError("Unrecognized DeletionPolicy %s for resource %s", policy, name)
			}
		}
		if r.Condition != "" && t.Conditions[r.Condition] == nil {
			return formatError("Template error: resource %s has an unresolved condition %s", name, r.Condition)
		}
	}
	missing := map[string]bool{}
	for _, name := range t.Names() {
		for _, reference := range t.Dependencies(name) {
			if _, ok := t.Resources[reference]; !ok {
				missing[reference] = true
			}
		}
	}
	for _, output := range t.Outputs {
		for _, reference := range t.references(output.Value) {
			if _, ok := t.Resources[reference]; !ok {
				missing[reference] = true
			}
		}
	}
	if len(missing) > 0 {
		return formatError("Unresolved resource dependencies [%s] in the Resources block of the template",
			strings.Join(slices.Sorted(maps.Keys(missing)), ", "))
	}
	_, err := t.Order()
	return err
}

// Names returns the logical IDs of all resources, sorted.
func (t *Template) Names() []string { return slices.Sorted(maps.Keys(t.Resources)) }

// Order returns the logical IDs of all resources, each after those that it depends on.
func (t *Template) Order() ([]string, error) {
	var order []string
	state := map[string]int{} // 1: its dependencies are being visited, 2: in order
	var visit func(name string) error
	visit = func(name string) error {
		switch state[name] {
		case 1:
			return invalid("Circular dependency between resources: [%s]", strings.Join(t.circle(state), ", "))
		case 2:
			return nil
		}
		state[name] = 1
		for _, dependency := range t.Dependencies(name) {
			if err := visit(dependency); err != nil {
				return err
			}
		}
		state[name] = 2
		order = append(order, name)
		return nil
	}
	for _, name := range t.Names() {
		if err := visit(name); err != nil {
			return nil, err
		}
	}
	return order, nil
}

func (t *Template) circle(state map[string]int) []string {
	return slices.DeleteFunc(t.Names(), func(name string) bool { return state[name] != 1 })
}

// Dependencies returns the logical IDs that a resource refers to or depends on, sorted.
func (t *Template) Dependencies(name string) []string {
	r := t.Resources[name]
	all := append(slices.Clone([]string(r.DependsOn)), t.references(r.Properties)...)
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(other string) bool { return other == name && !slices.Contains(r.DependsOn, name) })
}

// references returns the logical IDs of what a value refers to by Ref, Fn::GetAtt and Fn::Sub, without parameters and
// pseudo parameters.
func (t *Template) references(value any) []string {
	var found []string
	add := func(name string) {
		if _, parameter := t.Parameters[name]; !parameter && !strings.HasPrefix(name, "AWS::") {
			found = append(found, name)
		}
	}
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			found = append(found, t.references(item)...)
		}
	case map[string]any:
		function, argument, ok := functionOf(v)
		switch {
		case ok && function == "Ref":
			add(text(argument))
		case ok && function == "Fn::GetAtt":
			name, _ := attributeOf(argument)
			add(name)
		case ok && function == "Fn::Sub":
			pattern, variables := substitution(argument)
			for _, name := range placeholders(pattern) {
				if _, local := variables[name]; !local {
					name, _, _ = strings.Cut(name, ".")
					add(name)
				}
			}
			found = append(found, t.references(variables)...)
		default:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				found = append(found, t.references(v[key])...)
			}
		}
	}
	return found
}
