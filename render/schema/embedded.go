package schema

import (
	"fmt"
	"slices"

	aws "github.com/aws/karpenter-provider-aws/pkg/apis"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	core "sigs.k8s.io/karpenter/pkg/apis"
)

// EmbeddedVersion is the version of Karpenter whose CRDs are linked in.
const EmbeddedVersion = "1.14.1"

// Embedded returns the CRDs that are linked in, for use without a registry, and
// their version. The AWS provider's come first: its NodePool knows more rules
// than the core's of the same name.
func Embedded() (crds []*apiextensionsv1.CustomResourceDefinition, version string, err error) {
	seen := map[string]bool{}
	for _, crd := range slices.Concat(aws.CRDs, core.CRDs) {
		if crd == nil || crd.Name == "" {
			return nil, "", fmt.Errorf("read the embedded CRDs of Karpenter %s: one has no name", EmbeddedVersion)
		}
		if seen[crd.Name] {
			continue
		}
		seen[crd.Name] = true
		crds = append(crds, crd.DeepCopy())
	}
	return crds, EmbeddedVersion, nil
}
