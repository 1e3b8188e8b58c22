package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Notify is one receiver of notifications: what goes wrong with the NodeSync until a person does
// something, each once, and its end.
type Notify struct {
	// Name of the receiver, as messages have it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Type is the kind of receiver: Slack, an incoming webhook; Teams, a webhook of a workflow;
	// Alertmanager, /api/v2/alerts of one; Generic, any URL that takes the JSON of Flux's events.
	// +required
	Type NotifyType `json:"type"`
	// SecretRef names a Secret in the NodeSync's namespace with the key address, the URL, as in a
	// Provider of Flux. For Alertmanager, if need be, token, or username and password; for Generic
	// token, the key that the body is signed with; ca.crt where the host has a certificate of an
	// authority of its own.
	// +required
	SecretRef LocalReference `json:"secretRef"`
	// Severity error leaves out what is no trouble, such as a rollout that has finished.
	// +kubebuilder:default=info
	// +optional
	Severity NotifySeverity `json:"severity,omitempty"`
	// Reasons are those of which is notified, such as Refused, Held or RolloutBraked; the end of one
	// goes with it. Default: all.
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=63
	// +listType=set
	// +optional
	Reasons []string `json:"reasons,omitempty"`
}

// NotifyType is a kind of receiver.
//
// +kubebuilder:validation:Enum=Slack;Teams;Alertmanager;Generic
type NotifyType string

// The kinds of receivers.
const (
	NotifySlack        NotifyType = "Slack"
	NotifyTeams        NotifyType = "Teams"
	NotifyAlertmanager NotifyType = "Alertmanager"
	NotifyGeneric      NotifyType = "Generic"
)

// NotifySeverity is how grave a notification is, in the words of Flux.
//
// +kubebuilder:validation:Enum=info;error
type NotifySeverity string

// The severities.
const (
	NotifyInfo  NotifySeverity = "info"
	NotifyError NotifySeverity = "error"
)

// Notified is a trouble of which was notified, and which has not ended.
type Notified struct {
	// Subject is the condition that says it: Ready, RolledOut or NodeDrift.
	Subject string `json:"subject"`
	// Reason is the condition's.
	Reason string `json:"reason"`
	// Revision is the one that was attempted then.
	// +optional
	Revision string `json:"revision,omitempty"`
	// Message is the beginning of the condition's.
	// +optional
	Message string `json:"message,omitempty"`
	// Since is when it was notified first of the subject.
	Since metav1.Time `json:"since"`
}
