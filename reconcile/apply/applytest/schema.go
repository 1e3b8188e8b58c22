package applytest

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/render"
)

// FieldSet returns the fields that an apply of exactly this object would own.
func (s *Server) FieldSet(object *unstructured.Unstructured) (*fieldpath.Set, error) {
	d, known := s.definitions[object.GetKind()]
	if !known {
		return nil, fmt.Errorf("field set: the server does not know %s", object.GetKind())
	}
	value, err := d.converter.ObjectToTyped(object)
	if err != nil {
		return nil, err
	}
	set, err := value.ToFieldSet()
	if err != nil {
		return nil, err
	}
	return set.Difference(fieldpath.NewSet(
		fieldpath.MakePathOrDie("apiVersion"),
		fieldpath.MakePathOrDie("kind"),
		fieldpath.MakePathOrDie("metadata", "name"),
		fieldpath.MakePathOrDie("metadata", "namespace"),
	)), nil
}

// ValidateTransition returns no errors: this server does not validate.
func (s *Server) ValidateTransition(context.Context, *unstructured.Unstructured, *unstructured.Unstructured) field.ErrorList {
	return nil
}

// Definition parses one definition and adds defaults, as a render does.
func (s *Server) Definition(t TB, text string) render.Object {
	t.Helper()
	desired := &unstructured.Unstructured{}
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("read the definition: %v", err)
	}
	if err := desired.UnmarshalJSON(raw); err != nil {
		t.Fatalf("read the definition: %v", err)
	}
	return s.Rendered(t, desired)
}

// Rendered returns the rendered form of an object.
func (s *Server) Rendered(t TB, desired *unstructured.Unstructured) render.Object {
	t.Helper()
	d, known := s.definitions[desired.GetKind()]
	if !known {
		t.Fatalf("the server does not know %s", desired.GetKind())
	}
	defaulted := desired.DeepCopy()
	d.defaulted(defaulted)
	ref := render.RefOf(desired)
	return render.Object{
		Ref:       ref,
		Origin:    render.Origin{File: "nodes/" + ref.Name + ".yaml", Line: 1},
		Desired:   desired,
		Defaulted: defaulted,
		Ignored:   ignored(desired),
	}
}

// ignored parses the annotation of a valid definition.
func ignored(object *unstructured.Unstructured) (paths [][]string) {
	for _, pointer := range strings.Fields(object.GetAnnotations()[render.IgnoreDifferencesAnnotation]) {
		paths = append(paths, strings.Split(pointer, "/")[1:])
	}
	return paths
}
