package schema

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Validator knows the kinds of a set of CRDs.
type Validator struct {
	kinds map[schema.GroupVersionKind]*kind
}

// New returns the Validator of all versions that the CRDs serve.
func New(crds []*apiextensionsv1.CustomResourceDefinition) (*Validator, error) {
	v := &Validator{kinds: map[schema.GroupVersionKind]*kind{}}
	for _, crd := range crds {
		if err := weigh(crd); err != nil {
			return nil, err
		}
		for i := range crd.Spec.Versions {
			version := crd.Spec.Versions[i]
			if !version.Served {
				continue
			}
			k, err := newKind(crd, version.Name)
			if err != nil {
				return nil, fmt.Errorf("read schema of crd %s, version %s: %w", crd.Name, version.Name, err)
			}
			if _, twice := v.kinds[k.gvk]; twice {
				return nil, fmt.Errorf("read schema of crd %s: two CRDs define %s: leave one out", crd.Name, k.gvk)
			}
			v.kinds[k.gvk] = k
		}
	}
	return v, nil
}

// UnknownKindError is an object of a kind that no CRD defines.
type UnknownKindError struct {
	GVK schema.GroupVersionKind
}

// Error names the kind.
func (e *UnknownKindError) Error() string {
	return fmt.Sprintf("no CRD of this version of Karpenter defines %s in %s", e.GVK.Kind, e.GVK.GroupVersion())
}

// Schema returns the schema of a kind; nil if no CRD defines the kind. It is read only.
func (v *Validator) Schema(gvk schema.GroupVersionKind) *structural.Structural {
	if known, ok := v.kinds[gvk]; ok {
		return known.structural
	}
	return nil
}

func (v *Validator) kindOf(object *unstructured.Unstructured) (*kind, error) {
	gvk := object.GroupVersionKind()
	known, ok := v.kinds[gvk]
	if !ok {
		return nil, &UnknownKindError{GVK: gvk}
	}
	return known, nil
}

// unknownKind is the error list of an object that no CRD defines.
func unknownKind(object *unstructured.Unstructured, err error) field.ErrorList {
	return field.ErrorList{field.Invalid(field.NewPath("kind"), object.GetKind(), err.Error())}
}
