package schema

import (
	"bytes"
	_ "embed"
	"fmt"
	"slices"

	aws "github.com/aws/karpenter-provider-aws/pkg/apis"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	kjson "sigs.k8s.io/json"
	core "sigs.k8s.io/karpenter/pkg/apis"
)

const (
	// EmbeddedVersion is the version of Karpenter whose CRDs are linked in with its libraries.
	EmbeddedVersion = "1.15.0"
	// LTSVersion is the version of Karpenter's newest LTS line if it is older. Most clusters run it, so that its CRDs are
	// linked in, too.
	LTSVersion = "1.14.3"
)

//go:generate go run ./generate lts.jsonl

// lts are the CRDs of LTSVersion without descriptions, one in a line.
//
//go:embed lts.jsonl
var lts []byte

// Embedded returns the CRDs that are linked in with Karpenter's libraries, for use without a registry, and their
// version. The AWS provider's come first: its NodePool has more rules than the core's of the same name.
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

// EmbeddedOf returns the CRDs of EmbeddedVersion or LTSVersion, for use without a registry; nil for another version.
func EmbeddedOf(version string) (crds []*apiextensionsv1.CustomResourceDefinition, err error) {
	switch version {
	case EmbeddedVersion:
		crds, _, err = Embedded()
		return crds, err
	case LTSVersion:
		for line := range bytes.Lines(lts) {
			crd := &apiextensionsv1.CustomResourceDefinition{}
			if err := kjson.UnmarshalCaseSensitivePreserveInts(line, crd); err != nil {
				return nil, fmt.Errorf("read the embedded CRDs of Karpenter %s: %w", LTSVersion, err)
			}
			crds = append(crds, crd)
		}
	}
	return crds, nil
}
