package schema

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// shapes caches the sets of fields of objects by everything the sets depend on. A fleet has thousands of objects of a
// few shapes. The zero value is empty.
type shapes struct {
	mu sync.Mutex
	of map[string]*fieldpath.Set
}

// maxShapes limits how many are kept; beyond it all are dropped.
const maxShapes = 256

// get returns the set of a shape, and builds it on first use. It is read only.
func (s *shapes) get(shape []byte, build func() (*fieldpath.Set, error)) (*fieldpath.Set, error) {
	s.mu.Lock()
	known, ok := s.of[string(shape)] // does not copy
	s.mu.Unlock()
	if ok {
		return known, nil
	}
	made, err := build()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil || len(s.of) >= maxShapes {
		s.of = map[string]*fieldpath.Set{}
	}
	s.of[string(shape)] = made
	return made, nil
}

// layout describes what the set of fields depends on at one place of a schema; nil if unknown.
type layout struct {
	fields map[string]*layout
	// each is the layout of the items of a list, or of the fields of a map with any keys.
	each *layout
	// atomic reports whether the items of a list are not separate fields.
	atomic bool
}

func newLayout(s *structural.Structural) *layout {
	if s == nil {
		return nil
	}
	l := &layout{fields: make(map[string]*layout, len(s.Properties)), each: newLayout(s.Items), atomic: s.XListType == nil || *s.XListType == "atomic"}
	for name, property := range s.Properties {
		l.fields[name] = newLayout(&property)
	}
	if s.AdditionalProperties != nil {
		l.each = newLayout(s.AdditionalProperties.Structural)
	}
	return l
}

// appendShape appends everything that the set of fields of a value depends on: the keys of maps, the types of other
// values, and, for lists whose items are separate fields (sets and maps), their content. A list without a known layout
// is treated as one of these.
func (l *layout) appendShape(shape []byte, value any) []byte {
	switch value := value.(type) {
	case map[string]any:
		shape = append(shape, '{')
		keys := slices.AppendSeq(make([]string, 0, len(value)), maps.Keys(value))
		slices.Sort(keys)
		for _, key := range keys {
			shape = strconv.AppendQuote(shape, key)
			shape = l.below(key).appendShape(shape, value[key])
		}
		return append(shape, '}')
	case []any:
		return l.appendList(shape, value)
	case string:
		return append(shape, 's')
	case bool:
		return append(shape, 'b')
	case int64:
		return append(shape, 'i')
	default:
		return appendJSON(shape, value)
	}
}

func (l *layout) appendList(shape []byte, list []any) []byte {
	if l == nil || !l.atomic {
		return appendJSON(shape, list)
	}
	shape = append(shape, '[')
	last := len(shape)
	for i, item := range list {
		now := len(shape)
		shape = l.each.appendShape(shape, item)
		if i > 0 && string(shape[last:now]) == string(shape[now:]) {
			shape = shape[:now] // same as the previous item
		} else {
			last = now
		}
	}
	return append(shape, ']')
}

// appendJSON appends a value in full.
func appendJSON(shape []byte, value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		return append(shape, '?') // a value that was decoded from JSON can always be encoded
	}
	return append(shape, text...)
}

// below returns the layout of a field; nil if it has none.
func (l *layout) below(key string) *layout {
	if l == nil {
		return nil
	}
	if field, ok := l.fields[key]; ok {
		return field
	}
	return l.each
}

// place is one place in a schema: the checks on a value there, and the places of the value's parts.
type place struct {
	// own validates the value without its parts, and rules are the CEL rules on it; nil if there are none.
	own   *validate.SchemaValidator
	rules *cel.Validator

	properties        map[string]*place
	items, additional *place
}

// newPlace splits a structural schema. rules are those of the place and everything below it.
func newPlace(s *apiextensions.JSONSchemaProps, rules *cel.Validator) (*place, error) {
	if s == nil {
		return nil, nil
	}
	below := rules
	if rules == nil {
		below = &cel.Validator{}
	} else {
		here := *rules
		here.Properties, here.Items, here.AdditionalProperties = nil, nil, nil
		rules = &here
	}
	own := *s
	own.Properties, own.Items, own.AdditionalProperties = nil, nil, nil
	_, converted, err := validation.NewSchemaValidator(&own)
	if err != nil {
		return nil, err
	}
	p := &place{
		own: validate.NewSchemaValidator(converted, nil, "", strfmt.Default), rules: rules,
		properties: make(map[string]*place, len(s.Properties)),
	}
	for name, property := range s.Properties {
		var on *cel.Validator
		if found, ok := below.Properties[name]; ok {
			on = &found
		}
		if p.properties[name], err = newPlace(&property, on); err != nil {
			return nil, err
		}
	}
	if s.Items != nil {
		if p.items, err = newPlace(s.Items.Schema, below.Items); err != nil {
			return nil, err
		}
	}
	if s.AdditionalProperties != nil {
		p.additional, err = newPlace(s.AdditionalProperties.Schema, below.AdditionalProperties)
	}
	return p, err
}

// check reports whether a value passes the checks of its place, and returns the remaining budget for rules.
func (p *place) check(ctx context.Context, value any, budget int64) (left int64, passes bool) {
	if !p.own.Validate(value).IsValid() {
		return budget, false
	}
	if p.rules == nil {
		return budget, true
	}
	errs, left := p.rules.Validate(ctx, nil, nil, value, nil, budget)
	return left, len(errs) == 0 && left >= 0
}

// parts calls each for every part of a value that has a place, until it returns false.
func (p *place) parts(value any, each func(*place, any) bool) bool {
	switch value := value.(type) {
	case []any:
		for i := 0; p.items != nil && i < len(value); i++ {
			if !each(p.items, value[i]) {
				return false
			}
		}
	case map[string]any:
		for key, part := range value {
			at, found := p.properties[key]
			if !found {
				at = p.additional
			}
			if at != nil && !each(at, part) {
				return false
			}
		}
	}
	return true
}

// Default fills in the defaults of an object's schema, in place. An object of an unknown kind is not changed.
func (v *Validator) Default(object *unstructured.Unstructured) {
	k, err := v.kindOf(object)
	if err != nil {
		return
	}
	k.setDefaults(object.Object)
}

// setDefaults treats nulls as the API server does: it removes them before it sets defaults.
func (k *kind) setDefaults(object map[string]any) {
	if hasNull(object) {
		defaulting.PruneNonNullableNullsWithoutDefaults(object, k.structural)
	}
	defaulting.Default(object, k.defaults)
}

// ValidateTransition validates an update by the transition rules only. The object must have passed Validate and have
// its defaults. It then finds what ValidateUpdate finds, in a tenth of the time.
func (v *Validator) ValidateTransition(ctx context.Context, object, old *unstructured.Unstructured) field.ErrorList {
	k, err := v.kindOf(object)
	if err != nil {
		return unknownKind(object, err)
	}
	rules := k.transitions()
	if rules == nil {
		return nil
	}
	errs, _ := rules.Validate(ctx, nil, k.structural, object.Object, old.Object, celconfig.RuntimeCELCostBudget)
	return errs
}

// transitionRules compiles the rules of a schema that use the old object; nil if there are none.
func transitionRules(shape *structural.Structural) *cel.Validator {
	only := shape.DeepCopy()
	visitor := structural.Visitor{Structural: func(s *structural.Structural) bool {
		s.XValidations = slices.DeleteFunc(s.XValidations, func(rule apiextensionsv1.ValidationRule) bool {
			return !strings.Contains(rule.Rule, "oldSelf") && !strings.Contains(rule.MessageExpression, "oldSelf")
		})
		return true
	}}
	visitor.Visit(only)
	return cel.NewValidator(only, true, celconfig.PerCallLimit)
}
