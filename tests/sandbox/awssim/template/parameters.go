package template

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Values returns the values of the template's parameters: those given, else the defaults. The error has
// CloudFormation's words.
func (t *Template) Values(given map[string]string) (map[string]any, error) {
	var unknown, missing []string
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if _, ok := t.Parameters[name]; !ok {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		return nil, invalid("Parameters: [%s] do not exist in the template", strings.Join(unknown, ", "))
	}
	values := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(t.Parameters)) {
		p := t.Parameters[name]
		value, ok := given[name]
		switch {
		case !ok && p.Default == nil:
			missing = append(missing, name)
			continue
		case !ok:
			value = text(p.Default)
		}
		if err := p.check(name, value); err != nil {
			return nil, err
		}
		values[name] = p.typed(value)
	}
	if len(missing) > 0 {
		return nil, invalid("Parameters: [%s] must have values", strings.Join(missing, ", "))
	}
	return values, nil
}

// Hidden reports whether the value must not be shown.
func (p Parameter) Hidden() bool { return text(p.NoEcho) == "true" }

func (p Parameter) typed(value string) any {
	if p.Type != "CommaDelimitedList" && !strings.HasPrefix(p.Type, "List<") {
		return value
	}
	list := []any{}
	for _, part := range strings.Split(value, ",") {
		list = append(list, strings.TrimSpace(part))
	}
	return list
}

func (p Parameter) check(name, value string) error {
	if p.Type == "Number" {
		if _, err := strconv.ParseFloat(value, 64); err != nil {
			return invalid("Parameter '%s' must be a number.", name)
		}
	}
	if len(p.AllowedValues) > 0 && !slices.ContainsFunc(p.AllowedValues, func(allowed any) bool { return text(allowed) == value }) {
		return invalid("Parameter '%s' must be one of AllowedValues", name)
	}
	if p.AllowedPattern != "" {
		pattern, err := regexp.Compile("^(?:" + p.AllowedPattern + ")$")
		if err != nil || !pattern.MatchString(value) {
			return invalid("Parameter '%s' must match pattern %s", name, p.AllowedPattern)
		}
	}
	if least, err := strconv.Atoi(text(p.MinLength)); err == nil && len(value) < least {
		return invalid("Parameter '%s' must contain at least %d characters", name, least)
	}
	if most, err := strconv.Atoi(text(p.MaxLength)); err == nil && len(value) > most {
		return invalid("Parameter '%s' must contain at most %d characters", name, most)
	}
	return nil
}
