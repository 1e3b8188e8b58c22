package charts

import (
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

const crdKind = "CustomResourceDefinition"

// capacityBuffers is the one CRD that Karpenter releases in another project's group:
// cluster-autoscaler's, which has more kinds in it.
const capacityBuffers = "capacitybuffers.autoscaling.x-k8s.io"

// KarpenterCRD says by a CRD's name whether Karpenter releases it.
func KarpenterCRD(name string) bool {
	_, group, _ := strings.Cut(name, ".")
	return KarpenterGroup(group) || name == capacityBuffers
}

// KarpenterGroup says whether all of an API group is Karpenter's.
func KarpenterGroup(group string) bool {
	return group == "karpenter.sh" || group == "karpenter.k8s.aws"
}

// karpenterCRD is KarpenterCRD for a CRD whose name may contradict its group.
func karpenterCRD(crd *apiextensionsv1.CustomResourceDefinition) bool {
	if KarpenterGroup(crd.Spec.Group) {
		return crd.Name == crd.Spec.Names.Plural+"."+crd.Spec.Group
	}
	return crd.Name == capacityBuffers
}

// foreignCRDs are the names of those that are not Karpenter's, in order.
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
