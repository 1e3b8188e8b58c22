package template

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Scope is what functions refer to.
type Scope struct {
	Template *Template
	// Parameters are the values of parameters and of pseudo parameters (AWS::Region); lists for list types.
	Parameters map[string]any
	// Resource returns the physical ID of a resource.
	Resource func(logicalID string) (string, error)
	// Attribute returns an attribute of a resource.
	Attribute func(logicalID, attribute string) (string, error)
}

// noValue removes the property that it is the value of.
type noValue struct{}

// Resolve returns a value with all functions evaluated. A property whose value is AWS::NoValue is removed.
func (s Scope) Resolve(value any) (any, error) {
	switch v := value.(type) {
	case []any:
		items := []any{}
		for _, item := range v {
			resolved, err := s.Resolve(item)
			if err != nil {
				return nil, err
			}
			if resolved != (noValue{}) {
				items = append(items, resolved)
			}
		}
		return items, nil
	case map[string]any:
		if function, argument, ok := functionOf(v); ok {
			return s.call(function, argument)
		}
		fields := map[string]any{}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			resolved, err := s.Resolve(v[key])
			if err != nil {
				return nil, err
			}
			if resolved != (noValue{}) {
				fields[key] = resolved
			}
		}
		return fields, nil
	}
	return value, nil
}

// functionOf returns the function that an object calls. Only Ref, Condition and Fn::… are functions, and only as the
// only key: an IAM policy has a Condition among others.
func functionOf(v map[string]any) (name string, argument any, ok bool) {
	if len(v) != 1 {
		return "", nil, false
	}
	for name, argument = range v {
		_, named := argument.(string)
		ok = name == "Ref" || name == "Condition" && named || strings.HasPrefix(name, "Fn::")
	}
	return name, argument, ok
}

func (s Scope) call(function string, argument any) (any, error) {
	switch function {
	case "Ref":
		return s.ref(text(argument))
	case "Fn::GetAtt":
		name, attribute := attributeOf(argument)
		return s.Attribute(name, attribute)
	case "Fn::Sub":
		return s.sub(argument)
	case "Fn::If":
		return s.choose(argument)
	case "Condition", "Fn::And", "Fn::Or", "Fn::Not", "Fn::Equals":
		return s.condition(map[string]any{function: argument})
	}
	return s.callWithList(function, argument)
}

// callWithList calls the functions whose argument is a list that may contain other functions.
func (s Scope) callWithList(function string, argument any) (any, error) {
	resolved, err := s.Resolve(argument)
	if err != nil {
		return nil, err
	}
	list, _ := resolved.([]any)
	switch {
	case function == "Fn::Join" && len(list) == 2:
		return join(list[0], list[1])
	case function == "Fn::Select" && len(list) == 2:
		return choice(list[0], list[1])
	case function == "Fn::Split" && len(list) == 2:
		var parts []any
		for _, part := range strings.Split(text(list[1]), text(list[0])) {
			parts = append(parts, part)
		}
		return parts, nil
	case function == "Fn::FindInMap" && len(list) == 3:
		return s.find(text(list[0]), text(list[1]), text(list[2]))
	}
	return nil, invalid("Template error: the simulator does not support %s with this argument", function)
}

func (s Scope) ref(name string) (any, error) {
	if name == "AWS::NoValue" {
		return noValue{}, nil
	}
	if value, ok := s.Parameters[name]; ok {
		return value, nil
	}
	return s.Resource(name)
}

func (s Scope) sub(argument any) (any, error) {
	pattern, variables := substitution(argument)
	var failed error
	replaced := placeholder.ReplaceAllStringFunc(pattern, func(match string) string {
		name := strings.TrimSpace(match[2 : len(match)-1])
		if literal, ok := strings.CutPrefix(name, "!"); ok {
			return "${" + literal + "}"
		}
		value, err := s.variable(name, variables)
		if err != nil && failed == nil {
			failed = err
		}
		return text(value)
	})
	return replaced, failed
}

func (s Scope) variable(name string, variables map[string]any) (any, error) {
	if value, ok := variables[name]; ok {
		return s.Resolve(value)
	}
	if resource, attribute, ok := strings.Cut(name, "."); ok {
		return s.Attribute(resource, attribute)
	}
	return s.ref(name)
}

var placeholder = regexp.MustCompile(`\$\{[^}]+\}`)

// placeholders returns the names in a pattern of Fn::Sub.
func placeholders(pattern string) []string {
	var found []string
	for _, match := range placeholder.FindAllString(pattern, -1) {
		if name := strings.TrimSpace(match[2 : len(match)-1]); !strings.HasPrefix(name, "!") {
			found = append(found, name)
		}
	}
	return found
}

// substitution returns the pattern and the variables of Fn::Sub's argument: a string, or a list of both.
func substitution(argument any) (string, map[string]any) {
	if list, ok := argument.([]any); ok && len(list) == 2 {
		variables, _ := list[1].(map[string]any)
		return text(list[0]), variables
	}
	return text(argument), nil
}

// attributeOf returns the resource and the attribute of Fn::GetAtt's argument: "a.b" or ["a", "b"].
func attributeOf(argument any) (name, attribute string) {
	if list, ok := argument.([]any); ok && len(list) == 2 {
		return text(list[0]), text(list[1])
	}
	name, attribute, _ = strings.Cut(text(argument), ".")
	return name, attribute
}

func join(delimiter, list any) (any, error) {
	items, ok := list.([]any)
	if !ok {
		return nil, invalid(`Template error: every Fn::Join object requires two parameters, (1) a string delimiter and (2) a list of strings to be joined`)
	}
	parts := make([]string, len(items))
	for i, item := range items {
		parts[i] = text(item)
	}
	return strings.Join(parts, text(delimiter)), nil
}

func choice(index, list any) (any, error) {
	items, _ := list.([]any)
	n, err := strconv.Atoi(text(index))
	if err != nil || n < 0 || n >= len(items) {
		return nil, invalid("Template error: Fn::Select cannot select nonexistent value at index %s", text(index))
	}
	return items[n], nil
}

func (s Scope) find(mapping, first, second string) (any, error) {
	top, _ := s.Template.Mappings[mapping].(map[string]any)
	level, _ := top[first].(map[string]any)
	value, ok := level[second]
	if !ok {
		return nil, invalid("Template error: Unable to get mapping for %s::%s::%s", mapping, first, second)
	}
	return value, nil
}

func (s Scope) choose(argument any) (any, error) {
	list, ok := argument.([]any)
	if !ok || len(list) != 3 {
		return nil, invalid("Template error: Fn::If requires a list argument with three elements")
	}
	holds, err := s.Holds(text(list[0]))
	if err != nil {
		return nil, err
	}
	if holds {
		return s.Resolve(list[1])
	}
	return s.Resolve(list[2])
}

// Holds reports whether the condition of that name is true. The empty name always is.
func (s Scope) Holds(name string) (bool, error) {
	if name == "" {
		return true, nil
	}
	declared, ok := s.Template.Conditions[name]
	if !ok {
		return false, invalid("Template error: unresolved condition dependency %s", name)
	}
	return s.condition(declared)
}

func (s Scope) condition(value any) (bool, error) {
	object, _ := value.(map[string]any)
	function, argument, ok := functionOf(object)
	if !ok {
		return false, invalid("Template format error: a condition is not a function of conditions")
	}
	if function == "Condition" {
		return s.Holds(text(argument))
	}
	list, _ := argument.([]any)
	switch function {
	case "Fn::Equals":
		resolved, err := s.Resolve(list)
		if err != nil {
			return false, err
		}
		both, _ := resolved.([]any)
		return len(both) == 2 && text(both[0]) == text(both[1]), nil
	case "Fn::Not":
		if len(list) != 1 {
			break
		}
		holds, err := s.condition(list[0])
		return !holds, err
	case "Fn::And", "Fn::Or":
		for _, item := range list {
			holds, err := s.condition(item)
			if err != nil || holds == (function == "Fn::Or") {
				return holds, err
			}
		}
		return function == "Fn::And", nil
	}
	return false, invalid("Template format error: %s is not a function of conditions", function)
}

// text returns a scalar as CloudFormation writes it into a string: every number and boolean is one.
func text(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case bool:
		return strconv.FormatBool(v)
	case []any:
		parts := make([]string, len(v))
		for i, item := range v {
			parts[i] = text(item)
		}
		return strings.Join(parts, ",")
	}
	content, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(content)
}

// Text returns a resolved scalar as a string.
func Text(value any) string { return text(value) }

// Equal reports whether two resolved values are the same to a resource: numbers and booleans equal their text.
func Equal(x, y any) bool { return reflect.DeepEqual(normal(x), normal(y)) }

func normal(value any) any {
	switch v := value.(type) {
	case []any:
		items := make([]any, len(v))
		for i, item := range v {
			items[i] = normal(item)
		}
		return items
	case map[string]any:
		fields := map[string]any{}
		for key, item := range v {
			fields[key] = normal(item)
		}
		return fields
	}
	return text(value)
}
