package allowance

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// typed are objects as CRDs.
func typed(t *testing.T, objects []*unstructured.Unstructured) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, object := range objects {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, crd); err != nil {
			t.Fatal(err)
		}
		crds = append(crds, crd)
	}
	return crds
}

// TestCRDsOfChartsInGit: a CRD in Git is the released one, or its chart is one that the NodeSync
// names: what a schema sets, drops or merges is in the objects of every NodeSync, and outlives
// the commit.
func TestCRDsOfChartsInGit(t *testing.T) {
	const (
		classes = "CustomResourceDefinition ec2nodeclasses.karpenter.k8s.aws"
		pools   = "CustomResourceDefinition nodepools.karpenter.sh"
		digest  = "sha256:0123456789012345678901234567890123456789012345678901234567890123"
		spec    = "/spec/versions/0/schema/openAPIV3Schema/properties/spec"
	)
	for name, c := range map[string]struct{ crd, patch, version string }{
		"as released":                 {crd: classes, patch: "[]"},
		"another annotation":          {crd: classes, patch: "[{op: replace, path: /metadata/annotations/controller-gen.kubebuilder.io~1version, value: v0}]"},
		"a default":                   {classes, "[{op: add, path: " + spec + "/properties/userData/default, value: '#!/bin/sh evil'}]", "1.14.1"},
		"another default":             {pools, "[{op: replace, path: " + spec + "/properties/disruption/default, value: {consolidateAfter: 1s}}]", "1.14.1"},
		"no default":                  {pools, "[{op: remove, path: " + spec + "/properties/disruption/default}]", "1.14.1"},
		"a field less":                {pools, "[{op: remove, path: " + spec + "/properties/limits}]", "1.14.1"},
		"a field more":                {pools, "[{op: add, path: " + spec + "/properties/more, value: {type: string}}]", "1.14.1"},
		"unknown fields that stay":    {pools, "[{op: add, path: " + spec + "/x-kubernetes-preserve-unknown-fields, value: true}]", "1.14.1"},
		"an object within":            {pools, "[{op: add, path: " + spec + "/x-kubernetes-embedded-resource, value: true}]", "1.14.1"},
		"nullable":                    {pools, "[{op: add, path: " + spec + "/properties/disruption/nullable, value: true}]", "1.14.1"},
		"a list that merges":          {pools, "[{op: add, path: " + spec + "/properties/disruption/properties/budgets/x-kubernetes-list-type, value: set}]", "1.14.1"},
		"a rule less":                 {pools, "[{op: remove, path: " + spec + "/x-kubernetes-validations}]", "1.14.1"},
		"no status":                   {pools, "[{op: remove, path: /spec/versions/0/subresources/status}]", "1.14.1"},
		"a version more":              {pools, "[{op: add, path: /spec/versions/-, value: {name: v2, served: true, storage: false}}]", "1.14.1"},
		"short names":                 {pools, "[{op: add, path: /spec/names/shortNames, value: [pool]}]", "1.14.1"},
		"another version's":           {pools, "[]", "1.12.1"},
		"a version that is not known": {pools, "[]", "1.999.0"},
	} {
		t.Run(name, func(t *testing.T) {
			r := Rendered{Namespace: "kube-system", Version: "1.14.1", Digest: digest, CRDs: true, InGit: true, Objects: patched(t, realCRDs(t), c.crd, c.patch)}
			if c.version != "" {
				r.Version = c.version
			}
			before, err := (Allowance{}).CheckCRDs(r.Version, digest, typed(t, r.Objects))
			if err != nil {
				t.Fatal(err)
			}
			for where, err := range map[string]error{"before it is compiled": Refuse(before), "before it is written": Refuse((Allowance{}).CheckObjects(r))} {
				want := c.crd + " of a chart in Git is not the one that this plumbline knows of Karpenter " + r.Version
				if (err == nil) != (c.version == "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `spec.charts.allow.digests: ["`+digest+`"]`)) {
					t.Errorf("%s: refused: %v, want %q", where, err, want)
				}
			}
			named := Allowance{Digests: []string{digest}}
			if after, err := named.CheckCRDs(r.Version, digest, typed(t, r.Objects)); err != nil || len(after) > 0 {
				t.Errorf("with its digest: %v, %v", after, err)
			}
			if err := Refuse(named.CheckObjects(r)); err != nil {
				t.Errorf("with its digest: %v", err)
			}
			r.Digest = ""
			if err := Refuse(named.CheckObjects(r)); (err == nil) != (c.version == "") {
				t.Errorf("of an unknown digest: %v", err)
			}
			r.InGit = false
			if err := Refuse((Allowance{}).CheckObjects(r)); err != nil {
				t.Errorf("from a registry: %v", err)
			}
		})
	}
}
