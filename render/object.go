package render

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/plumbline-dev/plumbline/render/legacy"
)

// Validator knows the schema of the definitions.
type Validator interface {
	// Default fills in the schema's defaults, in place.
	Default(object *unstructured.Unstructured)
	// Validate checks an object that is to be created, unknown fields included.
	Validate(ctx context.Context, object *unstructured.Unstructured) field.ErrorList
	// Schema returns the schema of a kind; nil if no CRD defines the kind.
	Schema(kind schema.GroupVersionKind) *structural.Structural
}

// maker makes objects of drafts.
type maker struct {
	variables map[string]string
	validator Validator
	values    *Values
	left      *allowance
}

// object makes the object of a draft, or says all that is wrong with it.
func (m *maker) object(ctx context.Context, d draft) (Object, Errors) {
	made, problems := m.build(ctx, d)
	var errs Errors
	for _, p := range problems[:min(len(problems), mostListed)] {
		errs = append(errs, Error{File: d.origin.File, Line: d.lineOf(p.path), Message: p.message})
	}
	if more := len(problems) - mostListed; more > 0 {
		errs = append(errs, Error{File: d.origin.File, Line: errs[mostListed-1].Line, Message: fmt.Sprintf("and %d more mistakes in this object", more)})
	}
	return made, errs
}

func (m *maker) build(ctx context.Context, d draft) (Object, []problem) {
	content, ok := d.value.(map[string]any)
	if !ok {
		return Object{}, []problem{{"", "it is not an object: apiVersion and kind are missing"}}
	}
	apiVersion, _ := content["apiVersion"].(string)
	name, _ := content["kind"].(string)
	if apiVersion == "" || name == "" {
		return Object{}, []problem{{"", "it is not an object: apiVersion or kind is missing"}}
	}
	kind, refusal := classify(apiVersion, name)
	if refusal != "" {
		return Object{}, []problem{{"kind", refusal}}
	}
	if err := m.left.object(valuesOf(content)); err != nil {
		return Object{}, []problem{{"", err.Error()}}
	}
	dropEmpty(content)
	content, problems := m.substitute(kind, content)
	if content == nil {
		return Object{}, problems // too much
	}
	text := textOf(content)
	if err := m.left.write(text); err != nil {
		return Object{}, append(problems, problem{"", err.Error()})
	}
	namespaced := dropNamespace(kind, content)
	problems = append(problems, checkMetadata(kind, content)...)
	problems = append(problems, checkCharacters(kind, content)...)
	problems = append(problems, checkQuantities(kind, content)...)
	if len(problems) > 0 {
		return Object{}, problems
	}
	desired := &unstructured.Unstructured{Object: content}
	last := m.values.last(desired)
	desired.Object = m.values.like(content, last, nil)
	made := Object{
		Ref:       Ref{Kind: kind.GVK.Kind, Name: desired.GetName()},
		Origin:    d.origin,
		Desired:   desired,
		Defaulted: desired.DeepCopy(),
		Text:      text,
	}
	region := m.variables[regionVariable]
	made.Warning = sentences(namespaced, warnOfPlaceholders(kind, made), warnOfInstances(made), warnOfBudgets(made), warnOfForms(made, region))
	problems = append(checkDefinition(made), checkForms(made, region)...)
	if m.validator != nil {
		m.validator.Default(made.Defaulted)
		for _, err := range m.validator.Validate(ctx, desired) {
			problems = append(problems, problem{err.Field, fieldMessage(made.Ref, err)})
		}
	}
	var unignored []problem
	made.Ignored, unignored = m.ignored(ctx, made)
	problems = append(problems, unignored...)
	made.Defaulted.Object = m.values.like(made.Defaulted.Object, desired.Object, last)
	m.values.see(made.Defaulted)
	if len(problems) == 0 {
		problems = checkReadable(made)
	}
	return made, problems
}

// sentences joins those that there are.
func sentences(all ...string) string {
	return strings.Join(slices.DeleteFunc(all, func(one string) bool { return one == "" }), "; ")
}

func (m *maker) substitute(kind Kind, content map[string]any) (map[string]any, []problem) {
	value, _, _ := unstructured.NestedFieldNoCopy(content, "metadata", "annotations", SubstituteAnnotation)
	if value == "disabled" || !anyText(content, mayHaveVariables) {
		return content, nil
	}
	s := &substitution{variables: m.variables, scripts: kind.Scripts, left: m.left.limits.FileBytes}
	var shape *structural.Structural
	if m.validator != nil {
		shape = m.validator.Schema(kind.GVK)
	}
	replaced := s.entries(nil, content, shape)
	if err := cmp.Or(m.left.substitute(s.bytes), m.left.grow(valuesOf(content), valuesOf(replaced))); err != nil {
		return nil, append(s.problems, problem{"", err.Error()})
	}
	return replaced, s.problems
}

// maxMessage is where the message of a rule is cut: some repeat the whole value.
const maxMessage = 400

func fieldMessage(ref Ref, err *field.Error) string {
	if now := legacy.FieldNow(ref.Kind, err.Field); now != "" {
		return fmt.Sprintf("%s: %s is a field of an earlier version of Karpenter: %s", ref, err.Field, now)
	}
	body := err.ErrorBody()
	if err.Field != "" && err.Field != "<nil>" {
		// The schema's own messages begin with the field once more.
		body = err.Field + ": " + strings.Replace(body, ": "+err.Field+" in body ", ": ", 1)
	}
	return fmt.Sprintf("%s: %s", ref, cut(body))
}

// cut shortens a message.
func cut(message string) string {
	if runes := []rune(message); len(runes) > maxMessage {
		return string(runes[:maxMessage]) + "…"
	}
	return message
}
