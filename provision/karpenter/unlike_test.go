package karpenter

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

func TestUnlike(t *testing.T) {
	with := func(changes ...func(*apiextensionsv1.CustomResourceDefinition)) crdList {
		c := crd("nodepools.karpenter.sh", "v1")
		c.Spec.Versions[0].Schema = &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
			Type: "integer", Default: &apiextensionsv1.JSON{Raw: []byte(`{"a": 1}`)},
		}}
		for _, change := range changes {
			change(c)
		}
		return crdList{c}
	}
	const differs = "crd nodepools.karpenter.sh is not that"
	for name, c := range map[string]struct {
		live crdList
		want string
	}{
		"the same": {live: with()},
		"JSON with other spaces": {live: with(func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Spec.Versions[0].Schema.OpenAPIV3Schema.Default.Raw = []byte(`{"a":1}`)
		})},
		"with annotations": {live: with(func(c *apiextensionsv1.CustomResourceDefinition) { c.Annotations = map[string]string{"a": "b"} })},
		"beside another":   {live: append(with(), crd("nodeclaims.karpenter.sh", "v1"))},
		"not there":        {live: crdList{crd("nodeclaims.karpenter.sh", "v1")}, want: "crd nodepools.karpenter.sh is not there yet: that"},
		"another default": {live: with(func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Spec.Versions[0].Schema.OpenAPIV3Schema.Default.Raw = []byte(`{"a":2}`)
		}), want: differs},
		"no schema":        {live: with(func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Versions[0].Schema = nil }), want: differs},
		"another version":  {live: with(func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Versions[0].Name = "v2" }), want: differs},
		"one more version": {live: crdList{crd("nodepools.karpenter.sh", "v1", "v1beta1")}, want: differs},
		"a version that is served": {live: with(func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Spec.Versions[0].Served = !c.Spec.Versions[0].Served
		}), want: differs},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Unlike(c.live, with()); got != c.want {
				t.Errorf("Unlike() = %q, want %q", got, c.want)
			}
		})
	}
}
