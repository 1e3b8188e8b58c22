package schema

import (
	"context"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// place is one place in a schema: what it asks of a value that is there, and the places of
// the value's parts.
type place struct {
	// own checks the value and not its parts, and rules are the CEL rules on it; nil
	// where there are none.
	own   *validate.SchemaValidator
	rules *cel.Validator

	properties        map[string]*place
	items, additional *place
}

// newPlace takes a structural schema apart. rules are those of the place and all below it.
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
	p := &place{own: validate.NewSchemaValidator(converted, nil, "", strfmt.Default), rules: rules, properties: make(map[string]*place, len(s.Properties))}
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

// check says whether a value passes what its place asks of it, and what of the budget for
// rules is left then.
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

// parts calls a function for each part of a value that has a place, until it returns false.
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
