package applytest

import (
	"fmt"

	awsapis "github.com/aws/karpenter-provider-aws/pkg/apis"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/managedfields/managedfieldstest"
	coreapis "sigs.k8s.io/karpenter/pkg/apis"

	"github.com/plumbline-dev/plumbline/render"
)

// definition is the schema and the field manager of one kind.
type definition struct {
	kind      render.Kind
	converter managedfields.TypeConverter
	managers  *managedfields.FieldManager
	schema    *structural.Structural
}

// CRDs returns the CRDs of our kinds, from the linked modules.
func CRDs() []*apiextensionsv1.CustomResourceDefinition {
	var found []*apiextensionsv1.CustomResourceDefinition
	for _, crd := range append(coreapis.CRDs, awsapis.CRDs...) {
		for _, kind := range render.Kinds() {
			if crd.Name == kind.CRD && !has(found, crd.Name) {
				found = append(found, crd)
			}
		}
	}
	return found
}

func has(crds []*apiextensionsv1.CustomResourceDefinition, name string) bool {
	for _, crd := range crds {
		if crd.Name == name {
			return true
		}
	}
	return false
}

func definitions() (map[string]definition, error) {
	found := map[string]definition{}
	for _, crd := range CRDs() {
		kind, _ := render.KindOf(crd.Spec.Names.Kind)
		d, err := define(kind, crd)
		if err != nil {
			return nil, fmt.Errorf("define %s: %w", crd.Name, err)
		}
		found[kind.GVK.Kind] = d
	}
	return found, nil
}

func define(kind render.Kind, crd *apiextensionsv1.CustomResourceDefinition) (definition, error) {
	openapi, err := builder.BuildOpenAPIV3(crd, kind.GVK.Version, builder.Options{})
	if err != nil {
		return definition{}, err
	}
	converter, err := managedfields.NewTypeConverter(openapi.Components.Schemas, false)
	if err != nil {
		return definition{}, err
	}
	var version *apiextensionsv1.CustomResourceDefinitionVersion
	for i := range crd.Spec.Versions {
		if crd.Spec.Versions[i].Name == kind.GVK.Version {
			version = &crd.Spec.Versions[i]
		}
	}
	if version == nil {
		return definition{}, fmt.Errorf("no version %s", kind.GVK.Version)
	}
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(version.Schema.OpenAPIV3Schema, internal, nil); err != nil {
		return definition{}, err
	}
	schema, err := structural.NewStructural(internal)
	if err != nil {
		return definition{}, err
	}
	return definition{
		kind:      kind,
		converter: converter,
		managers:  managedfieldstest.NewFakeFieldManager(converter, kind.GVK),
		schema:    schema,
	}, nil
}

func (d definition) defaulted(object *unstructured.Unstructured) {
	defaulting.Default(object.Object, d.schema)
}
