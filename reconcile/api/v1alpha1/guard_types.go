package v1alpha1

import "k8s.io/apimachinery/pkg/util/intstr"

// Guard limits what a repository can take away without a person's word.
type Guard struct {
	// MaxRemovedPools is how many NodePools may be leaving at a time; those
	// beyond it are held.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +optional
	MaxRemovedPools *int32 `json:"maxRemovedPools,omitempty"`

	// AllowLastPool lets the last NodePool leave.
	// +optional
	AllowLastPool bool `json:"allowLastPool,omitempty"`

	// AllowUnverifiedAccount allows a first install or an adoption of Karpenter
	// while AWS cannot confirm that this is the cluster of that name. It never
	// allows one where AWS says that it is not.
	// +optional
	AllowUnverifiedAccount bool `json:"allowUnverifiedAccount,omitempty"`

	// MaxDisruptedNodes is how many nodes may be disrupted at a time, by removals,
	// replacements and lower replicas that one plan would begin, and those that end
	// already. What is beyond it is held: removals, and changes of definitions. A
	// percentage is of this NodeSync's NodeClaims, and allows at least 3.
	// +kubebuilder:default="25%"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(100|[0-9]{1,2})%$`
	// +kubebuilder:validation:XValidation:rule="type(self) == string || self >= 0",message="must not be negative"
	// +optional
	MaxDisruptedNodes *intstr.IntOrString `json:"maxDisruptedNodes,omitempty"`

	// IntolerantDaemonSets is what becomes of removals and replacements while a DaemonSet of a CSI
	// driver or a CNI plugin does not tolerate the taint karpenter.sh/disrupted:NoSchedule, with
	// which Karpenter drains a node: its pods are evicted, and volumes stay attached. Warn only
	// reports it, in the condition IntolerantDaemonSets; Hold also holds what would end nodes.
	// +kubebuilder:default=Warn
	// +optional
	IntolerantDaemonSets IntolerantDaemonSets `json:"intolerantDaemonSets,omitempty"`

	// Approvals is how many different people have to approve what is held (plumbline approve).
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=5
	// +optional
	Approvals *int32 `json:"approvals,omitempty"`
}

// IntolerantDaemonSets is what becomes of what would end nodes, while a DaemonSet that they need to
// the end would be evicted from them.
// +kubebuilder:validation:Enum=Warn;Hold
type IntolerantDaemonSets string

// What becomes of it.
const (
	IntolerantDaemonSetsWarn IntolerantDaemonSets = "Warn"
	IntolerantDaemonSetsHold IntolerantDaemonSets = "Hold"
)
