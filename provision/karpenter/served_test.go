package karpenter

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// schemaOf returns a CRD that serves one version with a schema.
func schemaOf(t *testing.T, version, text string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	props := &apiextensionsv1.JSONSchemaProps{}
	if err := yaml.Unmarshal([]byte(text), props); err != nil {
		t.Fatal(err)
	}
	made := crd("nodepools.karpenter.sh", version)
	made.Spec.Versions[0].Schema = &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: props}
	return made
}

// TestCheckServed: what EKS adds fits; what it does not have is named.
func TestCheckServed(t *testing.T) {
	const chart = `
type: object
properties:
  spec:
    type: object
    properties:
      weight: {type: integer, maximum: 100}
      nodes: {x-kubernetes-int-or-string: true}
      labels: {type: object, additionalProperties: {type: string}}
      requirements:
        type: array
        items:
          type: object
          properties:
            operator: {type: string, enum: [In, Gt, Gte]}
`
	fits := strings.ReplaceAll(strings.Replace(chart, "maximum: 100", "maximum: 50", 1), "[In, Gt, Gte]", "[In, Gt, Gte, Lte]") + "      ofEKS: {type: boolean}\n"
	for name, c := range map[string]struct {
		version, live string
		want          []string
	}{
		"the same":              {"v1", chart, nil},
		"more, and rules":       {"v1", fits, nil},
		"anything":              {"v1", "type: object\nx-kubernetes-preserve-unknown-fields: true\n", nil},
		"no such field":         {"v1", strings.Replace(chart, "weight:", "other:", 1), []string{"nodepools.karpenter.sh v1: spec.weight"}},
		"another type":          {"v1", strings.Replace(chart, "x-kubernetes-int-or-string: true", "type: string", 1), []string{"nodepools.karpenter.sh v1: spec.nodes as integer or string"}},
		"no such value":         {"v1", strings.Replace(chart, ", Gte]", "]", 1), []string{`nodepools.karpenter.sh v1: spec.requirements[].operator: "Gte"`}},
		"fixed keys":            {"v1", strings.Replace(chart, "additionalProperties: {type: string}", "properties: {a: {type: string}}", 1), []string{"nodepools.karpenter.sh v1: spec.labels with any keys"}},
		"another version of it": {"v1beta1", chart, []string{"nodepools.karpenter.sh v1"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := CheckServed("1.15.0", crdList{crd("ec2nodeclasses.karpenter.k8s.aws", "v1"), schemaOf(t, "v1", chart)}, crdList{schemaOf(t, c.version, c.live)})
			var unfit *ServedCRDsError
			if (c.want != nil) != errors.As(err, &unfit) {
				t.Fatalf("CheckServed() = %v", err)
			}
			if unfit == nil {
				return
			}
			if diff := cmp.Diff(c.want, unfit.Fields); diff != "" || unfit.CRDs[0] != "nodepools.karpenter.sh" || !strings.Contains(err.Error(), "karpenter 1.15.0 does not fit") {
				t.Errorf("fields (-want +got):\n%s%v", diff, err)
			}
		})
	}
	if err := CheckServed("1.15.0", crdList{schemaOf(t, "v1", chart)}, nil); err != nil {
		t.Errorf("EKS keeps none: %v", err)
	}
}

// TestServedAmongReleases: the CRDs of a later release fit an older controller, and older ones do not fit a newer one.
func TestServedAmongReleases(t *testing.T) {
	if err := CheckServed("1.12.1", crds(t, "1.12.1"), crds(t, "1.14.3")); err != nil {
		t.Errorf("1.12.1 with the CRDs of 1.14.3: %v", err)
	}
	var unfit *ServedCRDsError
	if err := CheckServed("1.14.3", crds(t, "1.14.3"), crds(t, "1.3.3")); !errors.As(err, &unfit) {
		t.Errorf("1.14.3 with the CRDs of 1.3.3: %v", err)
	}
}

// TestWithServed: the chart's CRDs, with those that EKS keeps in their place.
func TestWithServed(t *testing.T) {
	pool, class := crd("nodepools.karpenter.sh", "v1"), crd("ec2nodeclasses.karpenter.k8s.aws", "v1")
	live := crd("nodepools.karpenter.sh", "v1", "v1beta1")
	chart := crdList{class, pool}
	got := WithServed(chart, crdList{live, crd("of.others", "v1")})
	if len(got) != 2 || got[0] != class || got[1] != live || chart[1] != pool {
		t.Errorf("WithServed() = %v", got)
	}
}
