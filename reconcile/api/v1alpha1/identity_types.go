package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// IdentityConflict is another controller that launches or terminates EC2 instances under this cluster's name. Each of
// the two controllers terminates the instances of the other, because Karpenter identifies instances by a tag with the
// cluster's name.
type IdentityConflict struct {
	// Since is when the first sign of it was, and LastSign the newest; both are missing once the conflict is over, while
	// something of the response is left.
	// +optional
	Since metav1.Time `json:"since,omitzero"`
	// +optional
	LastSign metav1.Time `json:"lastSign,omitzero"`
	// Proven is true if the user data of an instance under this cluster's name has the API server of another cluster. If
	// it is false, a client other than this cluster's Karpenter terminates instances, and which one is unknown.
	// +optional
	Proven bool `json:"proven,omitempty"`
	// Endpoints are the other API servers, the first 5.
	// +kubebuilder:validation:MaxItems=5
	// +optional
	Endpoints []string `json:"endpoints,omitempty"`
	// Principals are the ARNs of the roles and users that have terminated instances, by CloudTrail, the first 5. They are
	// known some minutes later, and only if plumbline may query CloudTrail.
	// +kubebuilder:validation:MaxItems=5
	// +optional
	Principals []string `json:"principals,omitempty"`
	// Evidence is what was found, the first 10 findings.
	// +kubebuilder:validation:MaxItems=10
	// +optional
	Evidence []string `json:"evidence,omitempty"`
	// Terminated is how many instances of this cluster were terminated.
	// +optional
	Terminated int32 `json:"terminated,omitempty"`
	// Ours is how many running instances this cluster's NodeClaims have, and Theirs how many others have the cluster's
	// name, by the last comparison with EC2.
	// +optional
	Ours int32 `json:"ours,omitempty"`
	// +optional
	Theirs int32 `json:"theirs,omitempty"`
	// Response is what plumbline has done.
	// +optional
	Response *IdentityResponse `json:"response,omitempty"`
}

// IdentityResponse is what plumbline has done about an IdentityConflict, and undoes when that is over. Each entry is
// recorded before it is carried out.
type IdentityResponse struct {
	// Protected are the IDs of the instances for which plumbline enables EC2's termination protection: at most 2000.
	// +kubebuilder:validation:MaxItems=2000
	// +optional
	Protected []string `json:"protected,omitempty" redact:"-"`
	// Stopped is Karpenter's Deployment that plumbline scales to 0.
	// +optional
	Stopped *StoppedController `json:"stopped,omitempty"`
	// Failure is why not all of it could be done, and what to do about it.
	// +optional
	Failure string `json:"failure,omitempty"`
}

// StoppedController is a Deployment that is scaled to 0.
type StoppedController struct {
	Namespace string `json:"namespace" redact:"-"`
	Name      string `json:"name" redact:"-"`
	// Replicas is how many it had.
	Replicas int32 `json:"replicas"`
}

// Open reports whether there is a conflict. What is left of a response may outlast it.
func (c *IdentityConflict) Open() bool { return c != nil && !c.Since.IsZero() }

// GetResponse returns the response; an empty one if there is none.
func (c *IdentityConflict) GetResponse() IdentityResponse {
	if c == nil || c.Response == nil {
		return IdentityResponse{}
	}
	return *c.Response
}

// Holds reports whether, because of a conflict, nothing may be terminated or replaced.
func (c *IdentityConflict) Holds(on OnIdentityConflict) bool {
	return c.Open() && on != IdentityConflictReport
}

// HoldsDisruption reports whether nothing may be terminated or replaced, because another controller uses the cluster's name:
// the disruption budgets of all NodePools then belong to the brake.
func (s *NodeSync) HoldsDisruption() bool {
	return s.Status.IdentityConflict.Holds(s.Spec.Guard.OnIdentityConflict)
}

// OnIdentityConflict is what plumbline does if another controller uses this cluster's name.
// +kubebuilder:validation:Enum=Report;Freeze;StopController;Protect
type OnIdentityConflict string

// The values of OnIdentityConflict.
const (
	IdentityConflictReport         OnIdentityConflict = "Report"
	IdentityConflictFreeze         OnIdentityConflict = "Freeze"
	IdentityConflictStopController OnIdentityConflict = "StopController"
	IdentityConflictProtect        OnIdentityConflict = "Protect"
)

// Hides reports whether the response hides the signs of a conflict: then only a person can tell that it is over.
func (o OnIdentityConflict) Hides() bool {
	return o == IdentityConflictStopController || o == IdentityConflictProtect
}
