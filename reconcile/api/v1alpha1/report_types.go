package v1alpha1

// Report is one Git host that gets commit statuses.
//
// +kubebuilder:validation:XValidation:rule="self.provider != 'generic' || has(self.url)",message="provider generic needs the url that accepts the statuses"
// +kubebuilder:validation:XValidation:rule="!has(self.pullRequests) || self.provider != 'generic'",message="provider generic has no pull requests to follow: take pullRequests out"
// +kubebuilder:validation:XValidation:rule="!has(self.pullRequests) || !has(self.pullRequests.forks) || !self.pullRequests.forks || self.provider != 'bitbucket'",message="pullRequests from forks cannot be followed on bitbucket, where their heads are in other repositories: take forks out"
type Report struct {
	// Provider is the kind of host: bitbucket is Bitbucket Cloud, bitbucketserver is
	// Bitbucket Data Center, generic is any URL that takes signed JSON.
	// +kubebuilder:validation:Enum=github;gitlab;gitea;forgejo;bitbucket;bitbucketserver;azuredevops;generic
	// +required
	Provider string `json:"provider"`

	// SecretRef names a Secret in the NodeSync's namespace with the key token and, if
	// need be, ca.crt. For a GitHub App: githubAppID, githubAppInstallationID and
	// githubAppPrivateKey. For Bitbucket, instead of a token: username and password.
	// +required
	SecretRef LocalReference `json:"secretRef"`

	// URL of the repository's web page; for the provider generic the URL that takes the
	// statuses. Default: the source's URL, which has to be http or https for that.
	// +kubebuilder:validation:Pattern=`^https?://.+$`
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	URL string `json:"url,omitempty"`
	// TargetURL is where a commit status links to, such as a dashboard of the
	// cluster. Default: the daemon's page where it has a URL (--page-url), else the folder
	// of definitions in that commit, on the host.
	// +kubebuilder:validation:Pattern=`^https?://.+$`
	// +kubebuilder:validation:MaxLength=255
	// +optional
	TargetURL string `json:"targetURL,omitempty"`

	// PullRequests has the open pull requests followed that would go into spec.source.git.ref.branch:
	// what each would do to nodes is a status on its head, with the context
	// plumbline/<cluster>/<name>/plan. Default: none is looked at.
	// +optional
	PullRequests *PullRequests `json:"pullRequests,omitempty"`
}

// Reported is the commit status that is reported to a Git host.
type Reported struct {
	// Provider, URL and Context name the status.
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
	// Failure says why the host has not got this, or an older, status. It is
	// tried again, unless it says that it was given up.
	// +optional
	Failure string `json:"failure,omitempty"`
}
