package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Approval approves what the guard holds of one Plan, in the name of a person. RBAC decides who may create
// one; a ValidatingAdmissionPolicy ensures that each names its author.
//
// +kubebuilder:object:root=true
// +kubebuilder:metadata:annotations="helm.sh/resource-policy=keep"
// +kubebuilder:resource:categories=plumbline
// +kubebuilder:printcolumn:name="NodeSync",type=string,JSONPath=`.spec.nodeSync`
// +kubebuilder:printcolumn:name="Author",type=string,JSONPath=`.spec.author`
// +kubebuilder:printcolumn:name="Digest",type=string,JSONPath=`.spec.digest`
// +kubebuilder:printcolumn:name="Expires",type=string,JSONPath=`.spec.expiresAt`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.spec.reason`,priority=1
type Approval struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what is approved, and by whom. It cannot be changed.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="an Approval cannot be changed: create another one"
	// +required
	Spec ApprovalSpec `json:"spec"`
}

// ApprovalList is a list of Approvals.
//
// +kubebuilder:object:root=true
type ApprovalList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Approval `json:"items"`
}

// ApprovalSpec is what is approved, by whom, and until when.
type ApprovalSpec struct {
	// NodeSync is the name of the one in the same namespace whose Plan is approved.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	NodeSync string `json:"nodeSync"`
	// UID is that of the NodeSync: one that is created again is another one.
	// +kubebuilder:validation:MaxLength=253
	UID types.UID `json:"uid"`
	// Digest of what is held: the 26 characters that plumbline shows, or all of status.held.digest of the
	// NodeSync.
	// +kubebuilder:validation:Pattern=`^(sha256:[0-9a-f]{64}|[a-z2-7]{26})$`
	Digest string `json:"digest"`
	// Author is the user name of who creates it, as the API server knows it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Author string `json:"author"`
	// AuthorUID is the UID of that user, if the API server knows one. plumbline approve sets it.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	AuthorUID string `json:"authorUID,omitempty"`
	// AuthorExtra is what the API server knows of that user from AWS: arn, canonicalArn, principalId,
	// sessionName and accessKeyId, as EKS sets them. plumbline approve sets it.
	// +kubebuilder:validation:MaxProperties=5
	// +optional
	AuthorExtra map[string]AuthorExtraValue `json:"authorExtra,omitempty"`
	// Reason is what the author says of it.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Reason string `json:"reason,omitempty"`
	// ExpiresAt is until when it may begin to count. What was recorded as approved before goes on.
	ExpiresAt metav1.Time `json:"expiresAt"`
}

// AuthorExtraValue are the values of one key of a user's extra fields.
//
// +kubebuilder:validation:MaxItems=4
// +kubebuilder:validation:items:MaxLength=2048
type AuthorExtraValue []string

// HeldPlan is what the guard, or a policy that holds, holds of a Plan, and people may approve.
type HeldPlan struct {
	// Digest names it, and is what an Approval approves. It stays while the outcome does and at most
	// a tenth more nodes would be disrupted, at least one, but none if it disrupts no node.
	Digest string `json:"digest"`
	// Outcome is a digest of it without its nodes.
	Outcome string `json:"outcome"`
	// Summary describes what it does to nodes, as of now.
	Summary string `json:"summary"`
	// Nodes is how many it disrupted when Digest was made.
	// +optional
	Nodes int32 `json:"nodes,omitempty"`
	// WeighedBy is a digest of spec.guard, spec.policies and Karpenter's charts in Git.
	// +optional
	WeighedBy string `json:"weighedBy,omitempty"`
	// Entries are the objects that it would change or remove: each with its nodes of now, and with the reasons and pods
	// of when Digest was made.
	// +optional
	Entries []ApprovedEntry `json:"entries,omitempty"`
	// Needed is how many different people must approve it, and Approvers are those who have.
	Needed int32 `json:"needed"`
	// +optional
	Approvers []string `json:"approvers,omitempty" redact:"-"`
	// Message says why Approvals of it do not count, and what to do.
	// +optional
	Message string `json:"message,omitempty"`
}

// ApprovedPlan is what people have approved and has not been done yet.
type ApprovedPlan struct {
	// Digest is that of what was held.
	Digest string `json:"digest"`
	// By are the authors of the Approvals.
	By []string `json:"by" redact:"-"`
	// At is when it was recorded.
	At metav1.Time `json:"at"`
	// WeighedBy is a digest of spec.guard, spec.policies and Karpenter's charts in Git as they were: where
	// one of them is another, it counts no more.
	// +optional
	WeighedBy string `json:"weighedBy,omitempty"`
	// Nodes is how many it disrupted when Digest was made. A tenth more is tolerated.
	// +optional
	Nodes int32 `json:"nodes,omitempty"`
	// Entries are what is left to do of it.
	Entries []ApprovedEntry `json:"entries"`
}

// ApprovedEntry is one object that is held or approved, to be changed or removed.
type ApprovedEntry struct {
	// Kind, Name and UID of the object.
	Kind string    `json:"kind"`
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
	// Definition is a digest of the spec, labels and annotations that it would have; empty for a removal.
	// +optional
	Definition string `json:"definition,omitempty"`
	// Nodes is how many of its nodes would be disrupted.
	// +optional
	Nodes int32 `json:"nodes,omitempty"`
	// MovesTo are the entries that take the place of one that leaves.
	// +optional
	MovesTo []string `json:"movesTo,omitempty"`
	// LastPool reports whether Git had no NodePool left that may grow, so that the author knew.
	// +optional
	LastPool bool `json:"lastPool,omitempty"`
	// Orphan reports whether the object is orphaned, with its nodes.
	// +optional
	Orphan bool `json:"orphan,omitempty"`
	// Reasons are those for which it is held, by name, sorted: MaxRemovedPools, UnschedulablePods. An approval covers
	// these, and no others.
	// +optional
	Reasons []string `json:"reasons,omitempty"`
	// UnschedulablePods are the pods of its nodes that would be pending, by workload. An approval covers at most so many
	// of each.
	// +optional
	UnschedulablePods []PendingPods `json:"unschedulablePods,omitempty"`
	// Policies are those of spec.policies that held it, so that the author knew.
	// +optional
	Policies []string `json:"policies,omitempty"`
}

// PendingPods are pods of one workload that would be pending.
type PendingPods struct {
	// Workload is the namespace, kind and name of what owns the pods: default/Deployment/web. For a pod without an owner
	// it is the pod's.
	Workload string `json:"workload"`
	// Pods is how many they are.
	Pods int32 `json:"pods"`
}

// GetNeededApprovals is how many different people must approve what is held.
func (n *NodeSync) GetNeededApprovals() int32 {
	if needed := n.Spec.Guard.Approvals; needed != nil {
		return *needed
	}
	return 1
}
