package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp/syntax"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// maxWeight limits the memory of the patterns of one CRD, in bytes: those of a released one take a fifth. A validator
// keeps compiled patterns for the lifetime of the process (k8s.io/kube-openapi, pkg/validation/validate/rexp.go), and
// Go limits only the size of each single pattern.
const maxWeight = 2 << 20

// HeavyError reports a CRD whose schema costs too much to compile.
type HeavyError struct {
	CRD string
	// Path of the heaviest pattern, or of the default that exceeds the limit: "v1: spec.userData".
	Path string
	// Defaults reports whether the error is about defaults.
	Defaults bool
}

// Error names the CRD and the place in it.
func (e *HeavyError) Error() string {
	if e.Defaults {
		return fmt.Sprintf("crd %s is not compiled: its defaults would make more than %d values, which those of no release of Karpenter do; the one that is too much is at %s", e.CRD, maxDefaults, e.Path)
	}
	return fmt.Sprintf("crd %s is not compiled: its patterns would take more than %d MiB of memory, which those of no release of Karpenter do; the heaviest one is at %s", e.CRD, maxWeight>>20, e.Path)
}

// weigh refuses a CRD whose patterns or defaults exceed the limits. It includes versions that are not served, because
// the API server compiles these as well. It compiles nothing.
func weigh(crd *apiextensionsv1.CustomResourceDefinition) error {
	var w weight
	for _, version := range crd.Spec.Versions {
		if version.Schema != nil && version.Schema.OpenAPIV3Schema != nil {
			w.schema(version.Name+":", version.Schema.OpenAPIV3Schema)
		}
	}
	if w.sum > maxWeight {
		return &HeavyError{CRD: crd.Name, Path: w.path}
	}
	if w.tooMany != "" {
		return &HeavyError{CRD: crd.Name, Path: w.tooMany, Defaults: true}
	}
	return nil
}

// weight is the sum so far, and the heaviest pattern.
type weight struct {
	sum, most int
	path      string
	// defaults counts the values of defaults, and tooMany is where they exceeded the limit.
	defaults int
	tooMany  string
}

// schema adds the patterns and defaults of a schema and of everything below it, in order, and stops when there are too
// many. Fields that a structural schema must not have are refused before anything compiles them.
func (w *weight) schema(at string, s *apiextensionsv1.JSONSchemaProps) {
	if w.sum > maxWeight {
		return
	}
	if s.Pattern != "" {
		w.add(at, weightOf(s.Pattern))
	}
	w.fill(at, s)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		property := s.Properties[name]
		separator := "."
		if at[len(at)-1] == ':' {
			separator = " "
		}
		w.schema(at+separator+name, &property)
	}
	if s.Items != nil && s.Items.Schema != nil {
		w.schema(at+"[]", s.Items.Schema)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		w.schema(at+".*", s.AdditionalProperties.Schema)
	}
	for _, group := range []struct {
		name string
		of   []apiextensionsv1.JSONSchemaProps
	}{{"allOf", s.AllOf}, {"anyOf", s.AnyOf}, {"oneOf", s.OneOf}} {
		for i := range group.of {
			w.schema(fmt.Sprintf("%s.%s[%d]", at, group.name, i), &group.of[i])
		}
	}
	if s.Not != nil {
		w.schema(at+".not", s.Not)
	}
}

func (w *weight) add(at string, bytes int) {
	w.sum += bytes
	if bytes > w.most {
		w.most, w.path = bytes, at
	}
}

// The memory of the parts of a compiled pattern, in bytes, measured and rounded up.
const (
	perPattern     = 4 << 10
	perByte        = 16
	perInstruction = 128
	perRune        = 16
	perChoice      = 8 // in a small program, each choice may have all runes of the text
)

// maxText limits the length of a pattern: a class of Unicode takes ten bytes, and ten thousand once it is parsed.
const maxText = 8 << 10

// onePass is the size of a program below which regexp keeps a second one (regexp/onepass.go).
const onePass = 1000

// weightOf returns the memory of a compiled pattern, in bytes.
func weightOf(pattern string) int {
	if len(pattern) > maxText {
		return maxWeight + 1
	}
	bytes := perPattern + perByte*len(pattern)
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return bytes // compiling it reports the error
	}
	p := measure(parsed)
	bytes += perInstruction*p.instructions + perRune*p.runes
	if p.instructions < onePass {
		bytes += perChoice * p.choices * p.written
	}
	return bytes
}

// program is the size of a compiled expression, which Go has already limited (regexp/syntax/parse.go, maxSize).
type program struct {
	// instructions, with their runes and choices, count with repetitions expanded; written counts the runes as written.
	instructions, runes, choices, written int
}

// measure follows regexp/syntax/simplify.go and compile.go.
func measure(expression *syntax.Regexp) program {
	var p program
	for _, sub := range expression.Sub {
		is := measure(sub)
		p.instructions += is.instructions
		p.runes += is.runes
		p.choices += is.choices
		p.written += is.written
	}
	switch expression.Op {
	case syntax.OpLiteral:
		p.instructions, p.runes = len(expression.Rune), len(expression.Rune)
		p.written = p.runes
	case syntax.OpCharClass:
		p.instructions, p.runes, p.written = 1, len(expression.Rune), len(expression.Rune)
	case syntax.OpAlternate:
		p.instructions += len(expression.Sub)
		p.choices += len(expression.Sub)
	case syntax.OpRepeat:
		times := max(expression.Min, expression.Max, 1) + 1
		p.instructions, p.runes, p.choices = times*(p.instructions+1), times*p.runes, times*(p.choices+1)
	default:
		p.instructions += 2
		p.choices++
	}
	return p
}

// maxDefaults limits how many values the defaults of one CRD may create, counted where each is written: those of a
// released one create a tenth. A default is filled in with those of the schema below it, so ten items in each of ten
// items, and so on, are a billion in a kilobyte.
const maxDefaults = 200

// fill counts the size of a schema's default after it is filled in (k8s.io/apiextensions-apiserver,
// pkg/apiserver/schema/defaulting/algorithm.go).
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
