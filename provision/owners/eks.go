package owners

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AutoModeCRD is the CRD of the node classes of EKS Auto Mode. EKS creates it when Auto Mode is enabled, together with
// Karpenter's CRDs of NodePools and NodeClaims (AWS, EKS user guide, create-node-class and create-node-pool).
const AutoModeCRD = "nodeclasses.eks.amazonaws.com"

// eksManager is the field manager of EKS: AWS, EKS user guide, kubernetes-field-management ("manager: eks").
const eksManager = "eks"

// karpentersGroup is the API group that Karpenter and Auto Mode share.
const karpentersGroup = ".karpenter.sh"

// ServedByEKS reports whether EKS keeps a CRD of Karpenter up to date, for Auto Mode: it has a mark of EKS, or, in a
// cluster with AutoModeCRD, it is of the shared group, has no mark of any tool, and was not written by a known client. AWS
// documents the marks for what EKS manages, and not for these CRDs, so that a CRD of unknown origin beside Auto Mode counts as
// EKS's: what is left unchanged can be corrected, and what is overwritten cannot. autoMode reports whether the cluster
// has AutoModeCRD.
func ServedByEKS(crd metav1.Object, autoMode bool) bool {
	switch owner := Of(crd); {
	case owner.Tool == eks:
		return true
	case !autoMode || !strings.HasSuffix(crd.GetName(), karpentersGroup) || owner.Kind != "" || owner.Tool != "":
		return false
	default:
		_, applies := Applier(owner.Manager)
		return !applies && !Interactive(owner.Manager)
	}
}

// ofEKS reports whether an object has a mark of EKS: the label with which it marks what it creates, such as the built-in
// NodePools, or its field manager on the spec. eksctl has its own value of the label.
func ofEKS(object metav1.Object) bool {
	if strings.EqualFold(object.GetLabels()[managedBy], eks) {
		return true
	}
	return slices.ContainsFunc(object.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager == eksManager && entry.Subresource == "" && writesSpec(entry)
	})
}

// TrimManagers returns what Of needs of the managed fields of an object: who wrote its spec, and when.
func TrimManagers(entries []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	var kept []metav1.ManagedFieldsEntry
	for _, entry := range entries {
		if entry.Subresource == "" && writesSpec(entry) {
			kept = append(kept, metav1.ManagedFieldsEntry{Manager: entry.Manager, Time: entry.Time, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)})
		}
	}
	return kept
}
