package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of every type in this package.
var GroupVersion = schema.GroupVersion{Group: "plumbline.dev", Version: "v1alpha1"}

// NodeSyncKind is the kind of a NodeSync.
const NodeSyncKind = "NodeSync"

// ApprovalKind is the kind of an Approval.
const ApprovalKind = "Approval"

// ApprovalCRD is the name of its CRD.
const ApprovalCRD = "approvals.plumbline.dev"

// AddToScheme registers the package's types with a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &NodeSync{}, &NodeSyncList{}, &Approval{}, &ApprovalList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
