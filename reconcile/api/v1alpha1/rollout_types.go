package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// RolloutPolicy says what is done about the replacement of nodes that a commit has outdated.
type RolloutPolicy struct {
	// Timeout is how long it may take until its commit status is a failure. Nothing is stopped
	// by it. Default: none, as the windows of disruption budgets may be a week apart.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="must be at least 1s"
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}

// Rollout is the replacement of nodes that do not match their definitions. It is noted before
// anything is applied that outdates nodes, and ends when each node matches or is gone.
type Rollout struct {
	// Revision that has outdated the nodes; empty where no commit has, as with an alias of AMIs
	// that moved.
	// +optional
	Revision string `json:"revision,omitempty" redact:"-"`
	// Since is when it began.
	Since metav1.Time `json:"since"`
	// Nodes is how many nodes it is on.
	Nodes int32 `json:"nodes"`
	// Outdated is how many of them do not match yet, those that drain among them.
	Outdated int32 `json:"outdated"`
	// Draining is how many of the outdated ones are being deleted.
	// +optional
	Draining int32 `json:"draining,omitempty"`
	// LastProgress is when the numbers changed last.
	LastProgress metav1.Time `json:"lastProgress"`
	// SettlesAt is until when Karpenter may find more nodes outdated, where AWS has to
	// answer first.
	// +optional
	SettlesAt *metav1.Time `json:"settlesAt,omitempty"`
	// Reasons are Karpenter's, for which the nodes are outdated.
	// +optional
	Reasons []string `json:"reasons,omitempty" redact:"-"`
	// Message says what it waits for.
	// +optional
	Message string `json:"message,omitempty"`
}
