package allowance

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// CheckCRDs says which CRDs of a CRD chart in Git are not those of Karpenter's release. It is
// asked before anything compiles their schemas. A chart whose digest is allowed may have others:
// the author of the NodeSync vouches for it.
func (a Allowance) CheckCRDs(version, digest string, crds []*apiextensionsv1.CustomResourceDefinition) ([]Refusal, error) {
	var found []Refusal
	for _, crd := range crds {
		refusal, err := a.checkReleased(version, digest, crd)
		if err != nil {
			return nil, err
		}
		found = append(found, refusal...)
	}
	return found, nil
}

// checkReleased compares all of a CRD's spec. The API server writes the defaults of a schema into
// everyone's objects, drops the fields that it does not have, and merges lists by their keys:
// each of these outlives the commit, and the objects of other NodeSyncs are not held to a Plan.
func (a Allowance) checkReleased(version, digest string, crd *apiextensionsv1.CustomResourceDefinition) ([]Refusal, error) {
	if a.names(digest) {
		return nil, nil
	}
	is, err := Fingerprint(crd)
	if err != nil {
		return nil, err
	}
	if FromCharts().Fingerprints[version][crd.Name] == is {
		return nil, nil
	}
	return []Refusal{{
		What:  crdKind + " " + crd.Name,
		Why:   fmt.Sprintf("of a chart in Git is not the one that this plumbline knows of Karpenter %s: a schema sets and drops fields in the objects of every NodeSync", version),
		Field: fieldDigests, Entry: wholeDigest(digest), Rendered: true,
	}}, nil
}

// Fingerprint of all that a CRD defines, however it is written.
func Fingerprint(crd *apiextensionsv1.CustomResourceDefinition) (string, error) {
	typed, err := json.Marshal(crd.Spec)
	if err != nil {
		return "", fmt.Errorf("read crd %s: %w", crd.Name, err)
	}
	var plain any // a default is text as it was written, and has its keys in order now
	if err := json.Unmarshal(typed, &plain); err != nil {
		return "", fmt.Errorf("read crd %s: %w", crd.Name, err)
	}
	canonical, err := json.Marshal(plain)
	if err != nil {
		return "", fmt.Errorf("read crd %s: %w", crd.Name, err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(canonical)), nil
}
