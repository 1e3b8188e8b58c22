package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Report is one Git host that receives commit statuses.
//
// +kubebuilder:validation:XValidation:rule="self.provider != 'generic' || has(self.url)",message="provider generic needs the url that accepts the statuses"
// +kubebuilder:validation:XValidation:rule="!has(self.pullRequests) || self.provider != 'generic'",message="provider generic has no pull requests to follow: remove pullRequests"
// +kubebuilder:validation:XValidation:rule="!has(self.pullRequests) || !has(self.pullRequests.forks) || !self.pullRequests.forks || self.provider != 'bitbucket'",message="pullRequests from forks cannot be followed on bitbucket, where their heads are in other repositories: remove forks"
type Report struct {
	// Provider is the kind of host.
	//
	// bitbucket is Bitbucket Cloud, bitbucketserver is Bitbucket Data Center, generic is any URL that takes signed
	// JSON.
	// +kubebuilder:validation:Enum=github;gitlab;gitea;forgejo;bitbucket;bitbucketserver;azuredevops;generic
	// +required
	Provider string `json:"provider"`

	// SecretRef names a Secret in the NodeSync's namespace with the key token.
	//
	// Optional keys: ca.crt. For a GitHub App, instead of token: githubAppID, githubAppInstallationID and
	// githubAppPrivateKey. For Bitbucket, instead of token: username and password.
	// +required
	SecretRef LocalReference `json:"secretRef"`

	// URL of the repository's web page; for the provider generic, the URL that accepts the statuses. Default: the
	// source's URL, which must then be http or https.
	// +kubebuilder:validation:Pattern=`^https?://.+$`
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	URL string `json:"url,omitempty"`
	// TargetURL is where a commit status links to, such as a dashboard of the cluster. Default: the daemon's page if it
	// has a URL (--page-url), else the folder of definitions in that commit, on the host.
	// +kubebuilder:validation:Pattern=`^https?://.+$`
	// +kubebuilder:validation:MaxLength=255
	// +optional
	TargetURL string `json:"targetURL,omitempty"`

	// PullRequests makes plumbline report what each open pull request into spec.source.git.ref.branch would do to
	// nodes. Default: none.
	//
	// The report is a commit status on its head, with the context plumbline/<cluster>/<name>/plan, and a comment if
	// comment is true.
	// +optional
	PullRequests *PullRequests `json:"pullRequests,omitempty"`
}

// Reported is the commit status that is reported to a Git host.
type Reported struct {
	// Provider, URL and Context identify the status.
	Provider string `json:"provider"`
	// URL of the repository.
	// +optional
	URL     string `json:"url,omitempty"`
	Context string `json:"context"`
	// Commit it is reported on: the newest that changed anything.
	Commit string `json:"commit"`
	// State is pending, success or failure.
	State string `json:"state"`
	// Description is what the host shows.
	// +optional
	Description string `json:"description,omitempty"`
	// Failure is why the host does not have this status, or an older one. It is retried, unless it reports that
	// plumbline has given up.
	// +optional
	Failure string `json:"failure,omitempty"`
}

// Notify is one receiver of notifications: each problem of the NodeSync that needs a person, once, and its end.
type Notify struct {
	// Name identifies the receiver in messages.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Type is the kind of receiver.
	//
	// Slack is an incoming webhook; Teams, a webhook of a workflow; Alertmanager, its /api/v2/alerts; Generic, any
	// URL that takes the JSON of Flux's events.
	// +required
	Type NotifyType `json:"type"`
	// SecretRef names a Secret in the NodeSync's namespace with the key address, the URL, as in Flux's Provider.
	//
	// Optional keys: for Alertmanager token, or username and password; for Generic token, the key that the body is
	// signed with; ca.crt if the host's certificate is issued by a private authority.
	// +required
	SecretRef LocalReference `json:"secretRef"`
	// Severity error leaves out what is not a problem, such as a rollout that has finished.
	// +kubebuilder:default=info
	// +optional
	Severity NotifySeverity `json:"severity,omitempty"`
	// Reasons are the reasons to notify about, such as Refused, Held or RolloutBraked, including when each ends.
	// Default: all.
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

// NotifySeverity is the severity of a notification, as in Flux.
//
// +kubebuilder:validation:Enum=info;error
type NotifySeverity string

// The severities.
const (
	NotifyInfo  NotifySeverity = "info"
	NotifyError NotifySeverity = "error"
)

// Notified is a problem that receivers were notified about, and that still exists.
type Notified struct {
	// Subject is the condition that reports it: Ready, RolledOut or NodeDrift.
	Subject string `json:"subject"`
	// Reason of the condition.
	Reason string `json:"reason"`
	// Revision that was attempted then.
	// +optional
	Revision string `json:"revision,omitempty"`
	// Message is the start of the condition's message.
	// +optional
	Message string `json:"message,omitempty"`
	// Since is when the first notification about the subject was sent.
	Since metav1.Time `json:"since"`
}
