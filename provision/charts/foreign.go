package charts

import (
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// capacityBuffers are the one CRD that Karpenter releases in a group of others'.
const capacityBuffers = "capacitybuffers.autoscaling.x-k8s.io"

// karpenterCRD says whether a CRD is one that Karpenter releases. The group of
// CapacityBuffers is cluster-autoscaler's, which has kinds of its own in it.
func karpenterCRD(crd *apiextensionsv1.CustomResourceDefinition) bool {
	if karpenterGroup(crd.Spec.Group) {
		return crd.Name == crd.Spec.Names.Plural+"."+crd.Spec.Group
	}
	return crd.Name == capacityBuffers
}

// karpenterCRDName says so by the name alone.
func karpenterCRDName(name string) bool {
	_, group, _ := strings.Cut(name, ".")
	return karpenterGroup(group) || name == capacityBuffers
}

// karpenterGroup says whether all of a group is Karpenter's.
func karpenterGroup(group string) bool {
	return group == "karpenter.sh" || group == "karpenter.k8s.aws"
}

// foreignCRDs names those that are somebody else's, in order.
func foreignCRDs(crds []*apiextensionsv1.CustomResourceDefinition) []string {
	var names []string
	for _, crd := range crds {
		if !karpenterCRD(crd) {
			names = append(names, crd.Name)
		}
	}
	slices.Sort(names)
	return names
}
