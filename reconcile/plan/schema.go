package plan

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Schema knows the definitions' types as the API server does.
type Schema interface {
	// FieldSet is the set of fields that a server-side apply of exactly this
	// object would own.
	FieldSet(object *unstructured.Unstructured) (*fieldpath.Set, error)
	// ValidateTransition checks an object with another in its place before, by the rules
	// on transitions: by all others it was checked when it was rendered. The context bounds
	// what its expressions may cost.
	ValidateTransition(ctx context.Context, object, old *unstructured.Unstructured) field.ErrorList
}
