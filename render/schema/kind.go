package schema

import (
	"fmt"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// kind is one version of one kind.
type kind struct {
	gvk        schema.GroupVersionKind
	namespaced bool
	// status says that status is a subresource, which an apply never writes.
	status bool

	structural *structural.Structural
	// defaults, lists and embedded are what of structural leads to defaults, to lists that
	// are sets or maps, and to whole objects; each nil where there is none.
	defaults, lists, embedded *structural.Structural

	openapi validation.SchemaValidator
	// rules are the compiled CEL rules; nil where there are none.
	rules func() *cel.Validator
	// passed are the parts of objects that were valid.
	passed func() (*passed, error)
	// transitions are those of them that see the old object; nil where there are none.
	transitions func() *cel.Validator
	// shapes are the sets of fields that were made last, and layout is what they hang on.
	shapes shapes
	layout *layout
	// converter types objects for server-side apply.
	converter func() (managedfields.TypeConverter, error)
}

func newKind(crd *apiextensionsv1.CustomResourceDefinition, version string) (*kind, error) {
	written, err := apihelpers.GetSchemaForVersion(crd, version)
	if err != nil {
		return nil, err
	}
	if written == nil || written.OpenAPIV3Schema == nil {
		return nil, fmt.Errorf("it has no schema")
	}
	internal := &apiextensions.CustomResourceValidation{}
	if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(written, internal, nil); err != nil {
		return nil, err
	}
	shape, err := structural.NewStructural(internal.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	if problems := structural.ValidateStructural(nil, shape); len(problems) > 0 {
		return nil, fmt.Errorf("it is not structural: %w", problems.ToAggregate())
	}
	openapi, _, err := validation.NewSchemaValidator(internal.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	subresources, err := apihelpers.GetSubresourcesForVersion(crd, version)
	if err != nil {
		return nil, err
	}
	rules := sync.OnceValue(func() *cel.Validator {
		return cel.NewValidator(shape, true, celconfig.PerCallLimit)
	})
	return &kind{
		gvk:        schema.GroupVersionKind{Group: crd.Spec.Group, Version: version, Kind: crd.Spec.Names.Kind},
		namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped,
		status:     subresources != nil && subresources.Status != nil,
		structural: shape,
		defaults:   narrow(shape, hasDefault),
		lists:      narrow(shape, isSetOrMap),
		layout:     newLayout(shape),
		embedded:   narrow(shape, isEmbedded),
		openapi:    openapi,
		rules:      rules,
		passed: sync.OnceValues(func() (*passed, error) {
			root, err := newPlace(internal.OpenAPIV3Schema, rules())
			return &passed{root: root}, err
		}),
		transitions: sync.OnceValue(func() *cel.Validator { return transitionRules(shape) }),
		converter: sync.OnceValues(func() (managedfields.TypeConverter, error) {
			return newConverter(crd, version)
		}),
	}, nil
}

// newConverter builds the types that the API server uses for server-side apply,
// the way it does: apiextensions-apiserver, pkg/apiserver/customresource_handler.go,
// buildOpenAPIModelsForApply.
func newConverter(crd *apiextensionsv1.CustomResourceDefinition, version string) (managedfields.TypeConverter, error) {
	models, err := builder.BuildOpenAPIV3(crd, version, builder.Options{})
	if err != nil {
		return nil, fmt.Errorf("build the openapi of crd %s: %w", crd.Name, err)
	}
	converter, err := managedfields.NewTypeConverter(models.Components.Schemas, crd.Spec.PreserveUnknownFields)
	if err != nil {
		return nil, fmt.Errorf("read the types of crd %s: %w", crd.Name, err)
	}
	return converter, nil
}
