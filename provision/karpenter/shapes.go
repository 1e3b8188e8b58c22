package karpenter

import (
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// shapes are the structural schemas of a set of CRDs, each made when it is first
// asked for.
type shapes struct {
	crds []*apiextensionsv1.CustomResourceDefinition
	made map[schema.GroupVersionKind]shape
}

// shape is one schema, or why there is none.
type shape struct {
	is  *structural.Structural
	err error
}

func newShapes(crds []*apiextensionsv1.CustomResourceDefinition) *shapes {
	return &shapes{crds: crds, made: map[schema.GroupVersionKind]shape{}}
}

func (s *shapes) of(gvk schema.GroupVersionKind) (*structural.Structural, error) {
	if known, ok := s.made[gvk]; ok {
		return known.is, known.err
	}
	is, err := s.make(gvk)
	s.made[gvk] = shape{is, err}
	return is, err
}

func (s *shapes) make(gvk schema.GroupVersionKind) (*structural.Structural, error) {
	for _, crd := range s.crds {
		if crd.Spec.Group != gvk.Group || crd.Spec.Names.Kind != gvk.Kind {
			continue
		}
		for _, version := range crd.Spec.Versions {
			if version.Name == gvk.Version && version.Schema != nil && version.Schema.OpenAPIV3Schema != nil {
				return newStructural(version.Schema.OpenAPIV3Schema)
			}
		}
	}
	return nil, fmt.Errorf("no CRD defines %s in %s", gvk.Kind, gvk.GroupVersion())
}

func newStructural(written *apiextensionsv1.JSONSchemaProps) (*structural.Structural, error) {
	internal := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(written, internal, nil); err != nil {
		return nil, err
	}
	return structural.NewStructural(internal)
}
