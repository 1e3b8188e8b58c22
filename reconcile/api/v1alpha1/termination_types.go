package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Termination is a NodeClaim, a Node or an EC2 instance that has been terminating for longer than 5 minutes, or
// spec.removal.stallAfter if that is shorter.
type Termination struct {
	// Kind is NodeClaim, Node (no NodeClaim has it) or Instance (neither has it).
	Kind string `json:"kind" redact:"-"`
	// Name of the object; the ID of an instance.
	Name string `json:"name" redact:"-"`
	// Node of a NodeClaim; empty if it has none.
	// +optional
	Node string `json:"node,omitempty" redact:"-"`
	// Instance is its ID in EC2; empty if it has none.
	// +optional
	Instance string `json:"instance,omitempty" redact:"-"`
	// Pool is its NodePool.
	Pool string `json:"pool" redact:"-"`
	// Since is when it was deleted; of an instance, when plumbline first saw EC2 shut it down.
	Since metav1.Time `json:"since"`
	// Message names what it waits for.
	Message string `json:"message"`
	// BreakGlass is the command that terminates it all the same; nil if there is none.
	// +optional
	BreakGlass *BreakGlass `json:"breakGlass,omitempty"`
}
