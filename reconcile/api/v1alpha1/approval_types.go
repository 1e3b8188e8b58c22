package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Approval approves, on behalf of a person, what the guard holds of one Plan. RBAC decides who may create one; a
// ValidatingAdmissionPolicy ensures that each names its author.
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

	// Spec is what is approved, and by whom. It is immutable.
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
	// NodeSync is the name of the NodeSync, in the same namespace, whose Plan is approved.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	NodeSync string `json:"nodeSync"`
	// UID is that of the NodeSync: one that is created again is another one.
	UID types.UID `json:"uid"`
	// Digest identifies what is held: the 26 characters that plumbline shows, or all of status.held.digest of the
	// NodeSync.
	// +kubebuilder:validation:Pattern=`^(sha256:[0-9a-f]{64}|[a-z2-7]{26})$`
	Digest string `json:"digest"`
	// Author is the user name of the creator, as the API server reports it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Author string `json:"author"`
	// AuthorUID is the UID of that user, if the API server reports one. plumbline approve sets it.
	// +kubebuilder:validation:MaxLength=512
	// +optional
	AuthorUID string `json:"authorUID,omitempty"`
	// AuthorExtra is what the API server reports about that user from AWS: arn, canonicalArn, principalId, sessionName
	// and accessKeyId, as EKS sets them. plumbline approve sets it.
	// +kubebuilder:validation:MaxProperties=5
	// +optional
	AuthorExtra map[string]AuthorExtraValue `json:"authorExtra,omitempty"`
	// Reason is why the author approves it.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Reason string `json:"reason,omitempty"`
	// ExpiresAt is when the Approval expires. What was recorded as approved before that still counts.
	ExpiresAt metav1.Time `json:"expiresAt"`
}

// AuthorExtraValue are the values of one key of a user's extra fields.
//
// +kubebuilder:validation:MaxItems=4
// +kubebuilder:validation:items:MaxLength=2048
type AuthorExtraValue []string

// HeldPlan is the part of a Plan that the guard or a policy holds, and that people may approve.
type HeldPlan struct {
	// Digest identifies it, and is what an Approval approves. It stays the same while the outcome does and at most 10%
	// more nodes (at least one) would be disrupted; if it disrupts no node, none may be added.
	Digest string `json:"digest"`
	// Outcome is a digest of it without its number of nodes.
	Outcome string `json:"outcome"`
	// Summary describes its current effect on nodes.
	Summary string `json:"summary"`
	// Nodes is how many nodes it disrupted when Digest was computed.
	// +optional
	Nodes int32 `json:"nodes,omitempty"`
	// WeighedBy is a digest of spec.guard, spec.policies and Karpenter's charts in Git.
	// +optional
	WeighedBy string `json:"weighedBy,omitempty"`
	// Entries are the objects that it would change or remove. Their nodes are current; their reasons and pods are those
	// of when Digest was computed.
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

// ApprovedPlan is what people have approved and has not been carried out yet.
type ApprovedPlan struct {
	// Digest is the digest of what was held.
	Digest string `json:"digest"`
	// By are the authors of the Approvals.
	By []string `json:"by" redact:"-"`
	// At is when it was recorded.
	At metav1.Time `json:"at"`
	// WeighedBy is a digest of spec.guard, spec.policies and Karpenter's charts in Git at that time: if one of them
	// changes, the approval no longer counts.
	// +optional
	WeighedBy string `json:"weighedBy,omitempty"`
	// Nodes is how many nodes it disrupted when Digest was computed. Up to 10% more are allowed.
	// +optional
	Nodes int32 `json:"nodes,omitempty"`
	// Entries are what remains to be carried out.
	Entries []ApprovedEntry `json:"entries"`
}

// ApprovedEntry is one object whose change or removal is held or approved.
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
	// MovesTo are the entries that replace an entry that is removed.
	// +optional
	MovesTo []string `json:"movesTo,omitempty"`
	// LastPool reports whether Git had no other NodePool left that may grow when the removal was approved.
	// +optional
	LastPool bool `json:"lastPool,omitempty"`
	// Orphan reports whether the object is orphaned, with its nodes.
	// +optional
	Orphan bool `json:"orphan,omitempty"`
	// Reasons are the reasons for which it is held, sorted: MaxRemovedPools, UnschedulablePods. An approval covers
	// these and no others.
	// +optional
	Reasons []string `json:"reasons,omitempty"`
	// UnschedulablePods are the pods of its nodes that would be pending, by workload. An approval covers at most this
	// number of each.
	// +optional
	UnschedulablePods []PendingPods `json:"unschedulablePods,omitempty"`
	// Policies are those of spec.policies that held it when it was approved.
	// +optional
	Policies []string `json:"policies,omitempty"`
}

// PendingPods are pods of one workload that would be pending.
type PendingPods struct {
	// Workload is the namespace, kind and name of the pods' owner: default/Deployment/web. For a pod without an owner,
	// it names the pod.
	Workload string `json:"workload"`
	// Pods is the number of these pods.
	Pods int32 `json:"pods"`
}

// GetNeededApprovals returns how many different people must approve what is held.
func (n *NodeSync) GetNeededApprovals() int32 {
	if needed := n.Spec.Guard.Approvals; needed != nil {
		return *needed
	}
	return 1
}
