package schema

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"

	"github.com/plumbline-dev/plumbline/internal/nearest"
)

// Validate validates an object as the API server does on creation. The context limits the cost of its expressions.
func (v *Validator) Validate(ctx context.Context, object *unstructured.Unstructured) field.ErrorList {
	k, err := v.kindOf(object)
	if err != nil {
		return unknownKind(object, err)
	}
	content, meta, errs := k.admit(object)
	if meta == nil {
		return errs
	}
	errs = append(errs, apivalidation.ValidateObjectMeta(meta, k.namespaced, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))...)
	more := objectmeta.Validate(ctx, nil, content, k.embedded, false)
	more = append(more, listtype.ValidateListSetsAndMaps(nil, k.lists, content)...)
	if known, err := k.passed(); err == nil && len(errs)+len(more) == 0 && known.all(ctx, content, celconfig.RuntimeCELCostBudget) {
		return nil
	}
	errs = append(errs, validation.ValidateCustomResource(nil, content, k.openapi)...)
	errs = append(errs, more...)
	if rules := k.rules(); rules != nil && !blocking(errs) {
		found, _ := rules.Validate(ctx, nil, k.structural, content, nil, celconfig.RuntimeCELCostBudget)
		errs = append(errs, found...)
	}
	return errs
}

// ValidateUpdate validates an object as the API server does when it replaces a live one: transition rules see the old
// object, and what was invalid before and has not changed is accepted.
func (v *Validator) ValidateUpdate(ctx context.Context, object, old *unstructured.Unstructured) field.ErrorList {
	k, err := v.kindOf(object)
	if err != nil {
		return unknownKind(object, err)
	}
	content, meta, errs := k.admit(object)
	if meta == nil {
		return errs
	}
	before := old.Object
	correlated := common.NewCorrelatedObject(content, before, &model.Structural{Structural: k.structural})
	errs = append(errs, apivalidation.ValidateObjectMeta(meta, k.namespaced, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))...)
	errs = append(errs, validation.ValidateCustomResourceUpdate(nil, content, before, k.openapi, validation.WithRatcheting(correlated))...)
	errs = append(errs, objectmeta.Validate(ctx, nil, content, k.embedded, false)...)
	if len(listtype.ValidateListSetsAndMaps(nil, k.lists, before)) == 0 {
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, k.lists, content)...)
	}
	if rules := k.rules(); rules != nil && !blocking(errs) {
		found, _ := rules.Validate(ctx, nil, k.structural, content, before, celconfig.RuntimeCELCostBudget, cel.WithRatcheting(correlated))
		errs = append(errs, found...)
	}
	return errs
}

// admit does on a copy of the object what the API server does before validation: it reads metadata, finds unknown
// fields and sets defaults.
func (k *kind) admit(object *unstructured.Unstructured) (map[string]any, *metav1.ObjectMeta, field.ErrorList) {
	content := object.DeepCopy().Object
	meta, _, unknown, err := objectmeta.GetObjectMetaWithOptions(content, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		return nil, nil, field.ErrorList{field.Invalid(field.NewPath("metadata"), "", err.Error())}
	}
	if meta == nil {
		return nil, nil, field.ErrorList{field.Required(field.NewPath("metadata"), "an object needs a name")}
	}
	options := structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	unknown = append(unknown, pruning.PruneWithOptions(content, k.structural, true, options)...)
	slices.Sort(unknown)
	var errs field.ErrorList
	for _, path := range slices.Compact(unknown) {
		errs = append(errs, k.unknownField(path))
	}
	k.setDefaults(content)
	return content, meta, errs
}

// unknownField returns the error for a field that the schema does not have, with the name that was most likely meant.
func (k *kind) unknownField(path string) *field.Error {
	detail := "unknown field: this version of Karpenter does not have it"
	if meant := k.meant(path); meant != "" {
		detail = "unknown field: did you mean " + meant + "?"
	}
	return field.Forbidden(field.NewPath(path), detail)
}

// index matches a list index in a path.
var index = regexp.MustCompile(`\[\d+\]`)

// meant returns the sibling of an unknown field whose name is most similar.
func (k *kind) meant(path string) string {
	at, names := k.structural, strings.Split(index.ReplaceAllString(path, ""), ".")
	for _, name := range names[:len(names)-1] {
		below, ok := at.Properties[name]
		if !ok {
			return ""
		}
		if at = &below; at.Items != nil {
			at = at.Items
		}
	}
	return nearest.Name(names[len(names)-1], slices.Sorted(maps.Keys(at.Properties)))
}

// blocking reports whether an object has errors for which its rules are not run, by the same test as the API server's:
// pkg/registry/customresource/strategy.go, hasBlockingErr.
func blocking(errs field.ErrorList) bool {
	return slices.ContainsFunc(errs, func(err *field.Error) bool {
		switch err.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return true
		default:
			return false
		}
	})
}

// Validator validates the kinds of a set of CRDs.
type Validator struct {
	kinds map[schema.GroupVersionKind]*kind
}

// New returns a Validator for all versions that the CRDs serve.
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

// UnknownKindError reports an object of a kind that no CRD defines.
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

// unknownKind returns the error list for an object that no CRD defines.
func unknownKind(object *unstructured.Unstructured, err error) field.ErrorList {
	return field.ErrorList{field.Invalid(field.NewPath("kind"), object.GetKind(), err.Error())}
}
