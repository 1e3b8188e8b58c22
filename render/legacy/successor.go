package legacy

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Successor is the kind that replaced an older one.
type Successor struct {
	// APIVersion and Kind in v1.
	APIVersion, Kind string
	// Hint explains where fields moved that have no field of the same name.
	Hint string
}

const (
	pool  = "karpenter.sh/v1"
	class = "karpenter.k8s.aws/v1"
)

// SuccessorOf returns the kind that replaced one from before v1. Sources: Karpenter's upgrade guide, sections 0.32 and
// 1.0.
func SuccessorOf(gvk schema.GroupVersionKind) (Successor, bool) {
	found, ok := successors()[gvk]
	return found, ok
}

// Has reports whether Karpenter had definitions of a kind with that name before v1.
func Has(kind string) bool {
	for gvk := range successors() {
		if gvk.Kind == kind {
			return true
		}
	}
	return false
}

// Kinds returns the kinds from before v1, sorted.
func Kinds() []schema.GroupVersionKind {
	return slices.SortedFunc(maps.Keys(successors()), func(a, b schema.GroupVersionKind) int {
		return strings.Compare(a.String(), b.String())
	})
}

func successors() map[schema.GroupVersionKind]Successor {
	return map[schema.GroupVersionKind]Successor{
		{Group: "karpenter.sh", Version: "v1alpha5", Kind: "Provisioner"}: {
			pool, "NodePool",
			"ttlSecondsAfterEmpty is disruption.consolidateAfter, ttlSecondsUntilExpired is template.spec.expireAfter, providerRef is template.spec.nodeClassRef",
		},
		{Group: "karpenter.k8s.aws", Version: "v1alpha1", Kind: "AWSNodeTemplate"}: {
			class, "EC2NodeClass",
			"the subnet, security group and AMI selectors are lists of terms, and launchTemplate is gone",
		},
		{Group: "karpenter.sh", Version: "v1alpha5", Kind: "Machine"}: {
			pool, "NodeClaim", "Karpenter makes it: leave it out",
		},
		{Group: "karpenter.sh", Version: "v1beta1", Kind: "NodePool"}: {
			pool, "NodePool",
			"template.spec.kubelet moved to the EC2NodeClass, disruption.expireAfter to template.spec.expireAfter, and nodeClassRef takes group instead of apiVersion",
		},
		{Group: "karpenter.k8s.aws", Version: "v1beta1", Kind: "EC2NodeClass"}: {
			class, "EC2NodeClass",
			"amiSelectorTerms are required, and take alias: al2023@latest for an AMI family",
		},
	}
}
