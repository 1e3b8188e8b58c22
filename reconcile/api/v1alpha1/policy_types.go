package v1alpha1

// Policy is a rule over each Plan, as an expression in CEL that is true where the Plan may be
// carried out. It knows the whole as plan; one that mentions change is asked for each change of
// Git, and one that mentions removal for each entry that leaves. Their shape is that of
// `plumbline plan -o json`.
type Policy struct {
	// Name is what messages call it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// Expression is CEL, with Kubernetes' libraries, over plan, or over plan and one of
	// change and removal. It must be a bool.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:XValidation:rule="self.matches('(^|[^.a-zA-Z0-9_])(plan|change|removal)([^a-zA-Z0-9_]|$)')",message="must mention plan, change or removal: it decides about nothing else"
	Expression string `json:"expression"`

	// Message is what a person reads where the expression is false.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`

	// MessageExpression is CEL over the same, and makes the message. Where it fails, Message is
	// used.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	MessageExpression string `json:"messageExpression,omitempty"`

	// Action is what becomes of what the expression is false for.
	Action PolicyAction `json:"action"`
}

// PolicyAction is what a policy does where its expression is false.
//
// +kubebuilder:validation:Enum=Deny;Hold
type PolicyAction string

// The values of PolicyAction.
const (
	// PolicyDeny refuses the commit: nothing of it is written, no removal goes on.
	PolicyDeny PolicyAction = "Deny"
	// PolicyHold holds what the expression was asked for, as the guard does: the change, the
	// removal, or all of the plan.
	PolicyHold PolicyAction = "Hold"
)
