package v1alpha1

// PullRequests says what is reported on pull requests.
type PullRequests struct {
	// Comment has the plan written as a comment, too, which is edited when the plan
	// changes.
	// +optional
	Comment bool `json:"comment,omitempty"`
	// Forks has the pull requests from forks planned, too. Who may open one has any files
	// rendered, in the same confinement as those of the branch; no Secret is read for them. On
	// Bitbucket Cloud they cannot be: their heads are in other repositories.
	// +optional
	Forks bool `json:"forks,omitempty"`
}
