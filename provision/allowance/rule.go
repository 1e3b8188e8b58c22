package allowance

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// rule is what a part of Karpenter's Deployment may be. The daemon holds a rendered chart to it (shaped), and the admission
// policy of its ServiceAccount is generated from it (expression): both decide alike. The zero value takes anything.
type rule struct {
	// fields are the fields that an object may have. Others are refused.
	fields map[string]rule
	// each is the rule of every item of a list, and first that of the first one.
	each, first *rule
	// oneOf are the values that it may be, and match is a regular expression for all of a text.
	oneOf []string
	match string
	// empty is true for a list without items.
	empty bool
	// required is true if it has to be there.
	required bool
	// opens is the value of the chart by which a NodeSync (spec.charts.allow.values) allows whatever it is.
	opens string
	// level is true if the Pod Security Standards decide about it too, so that a NodeSync that lowers the level allows it.
	level bool
}

// shaped refuses what breaks a rule.
func (c *check) shaped(r rule, at string, value any) {
	if r.opens != "" && c.allowance.allows(r.opens) || r.level && levels[c.allowance.PodSecurity] != levels[Restricted] {
		return
	}
	switch value := value.(type) {
	case map[string]any:
		c.fields(r, at, value)
	case []any:
		for i, item := range value {
			switch {
			case r.empty:
				c.breaks(r, at)
			case r.first != nil && i == 0:
				c.shaped(*r.first, at+"[]", item)
			case r.each != nil:
				c.shaped(*r.each, at+"[]", item)
			}
		}
	default:
		if !r.takes(value) {
			c.breaks(r, at)
		}
	}
}

// takes reports whether a text, a number or a truth is what the rule wants.
func (r rule) takes(value any) bool {
	text := fmt.Sprint(value)
	switch {
	case r.empty:
		return false
	case len(r.oneOf) > 0:
		return slices.Contains(r.oneOf, text)
	case r.match != "":
		return regexp.MustCompile(`^(?:` + r.match + `)$`).MatchString(text)
	}
	return true
}

// fields holds the fields of an object to their rules.
func (c *check) fields(r rule, at string, object map[string]any) {
	if r.fields == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		field, known := r.fields[name]
		switch {
		case object[name] == nil: // the API server drops it
		case known:
			c.shaped(field, at+"."+name, object[name])
		case r.opens == "" || !c.allowance.allows(join(r.opens, name)):
			c.breaks(r, at+"."+name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.fields)) {
		if r.fields[name].required && object[name] == nil {
			c.breaks(r.fields[name], at+"."+name)
		}
	}
}

// breaks refuses a field, with what would allow it.
func (c *check) breaks(r rule, at string) {
	refusal := Refusal{What: c.name(), Why: "has " + at + " as no chart of Karpenter's has it"}
	switch {
	case r.level:
		refusal.Field, refusal.Entry = fieldPodSecurity, string(Privileged)
	case r.opens != "":
		refusal.Field, refusal.Entry = fieldValues, r.opens
	}
	c.found = append(c.found, refusal)
}

// expression is the rule in CEL, about what stands at x. Depth numbers the variables of its loops.
func (r rule) expression(x string, depth int) string {
	var parts []string
	switch {
	case r.empty:
		parts = append(parts, x+".size() == 0")
	case len(r.oneOf) > 0:
		parts = append(parts, fmt.Sprintf("string(%s) in %s", x, celList(r.oneOf)))
	case r.match != "":
		parts = append(parts, fmt.Sprintf("string(%s).matches(r'^(?:%s)$')", x, r.match))
	case r.each != nil:
		item := fmt.Sprintf("i%d", depth)
		if each := r.each.expression(item, depth+1); each != "true" {
			parts = append(parts, fmt.Sprintf("%s.all(%s, %s)", x, item, each))
		}
	case r.first != nil:
		parts = append(parts, r.first.expression(x+"[0]", depth))
	case r.fields != nil:
		parts = append(parts, r.fieldsExpression(x, depth)...)
	}
	all := strings.Join(parts, " && ")
	switch {
	case all == "":
		return "true"
	case r.opens != "":
		return "(" + opened(r.opens) + " || (" + all + "))"
	}
	return all
}

func (r rule) fieldsExpression(x string, depth int) []string {
	names := slices.Sorted(maps.Keys(r.fields))
	name := fmt.Sprintf("f%d", depth)
	known := name + " in " + celList(names)
	if r.opens != "" {
		known += fmt.Sprintf(" || ('%[1]s.' + %[2]s) in variables.allowed || ('%[1]s[' + %[2]s + ']') in variables.allowed", r.opens, name)
	}
	parts := []string{fmt.Sprintf("%s.all(%s, %s)", x, name, known)}
	for _, field := range names {
		of := r.fields[field]
		switch holds := of.expression(x+"."+field, depth+1); {
		case of.required && holds == "true":
			parts = append(parts, fmt.Sprintf("has(%s.%s)", x, field))
		case of.required:
			parts = append(parts, fmt.Sprintf("has(%s.%s) && %s", x, field, holds))
		case holds != "true":
			parts = append(parts, fmt.Sprintf("(!has(%s.%s) || (%s))", x, field, holds))
		}
	}
	return parts
}

// opened is true, in CEL, if the variable allowed has a value of the chart or one that it is below.
func opened(path string) string {
	above := []string{Everything}
	all := segments(path)
	for i := range all {
		above = append(above, strings.Join(all[:i+1], "."))
	}
	return celList(above) + ".exists(p, p in variables.allowed)"
}

// celList is a list of texts in CEL.
func celList(list []string) string {
	all := make([]string, 0, len(list))
	for _, one := range list {
		all = append(all, "'"+one+"'")
	}
	return "[" + strings.Join(all, ", ") + "]"
}
