package v1alpha1

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ImageTrain is whether and when plumbline proposes newer AMIs.
//
// +kubebuilder:validation:XValidation:rule="!has(self.schedule) || self.schedule.size() == 0 || self.schedule.matches('^[^ ]+( +[^ ]+){4}$')",message="schedule must have the five fields of cron: minute, hour, day of the month, month, day of the week"
type ImageTrain struct {
	// Propose makes plumbline open a pull request that pins the newest AMI alias that is old enough, for the
	// EC2NodeClasses of the NodeSync that select one; for an alias @latest, its pinned form is proposed once.
	//
	// It needs a report on GitHub, GitLab, Gitea or Forgejo, and a source.git.ref that is a branch.
	// +optional
	Propose bool `json:"propose,omitempty"`

	// MinAge is how old a release must be before it is proposed, in days, hours, minutes and seconds: 3d, 72h.
	// +kubebuilder:default="72h"
	// +kubebuilder:validation:Pattern=`^([0-9]+(d|h|m|s))+$`
	// +kubebuilder:validation:MaxLength=32
	// +optional
	MinAge string `json:"minAge,omitempty"`

	// Schedule is when pull requests are opened, as a cron schedule in UTC: 0 9 * * mon. A release is proposed at the first
	// of these times after it is old enough. Default: at any time.
	// +kubebuilder:validation:MaxLength=100
	// +optional
	Schedule string `json:"schedule,omitempty"`

	// MaxAge is how old the AMIs of an alias may be. Older ones are reported in the condition ImagesOutdated, and their
	// successor is proposed without waiting for schedule. Default: no limit.
	// +kubebuilder:validation:Pattern=`^([0-9]+(d|h|m|s))+$`
	// +kubebuilder:validation:MaxLength=32
	// +optional
	MaxAge string `json:"maxAge,omitempty"`

	// Group is the name of the NodeSyncs of all clusters, with the same repository and branch, that have at most one of these
	// pull requests open at a time, such as a ring. Default: this NodeSync.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`
	// +optional
	Group string `json:"group,omitempty"`

	// SecretRef names the Secret that is used to push the branch, in the form of source.git.secretRef. If it has a token, or
	// the keys of a GitHub App, as for report, these open the pull request. Default: source.git.secretRef pushes, and the
	// secretRef of the report opens.
	// +optional
	SecretRef *LocalReference `json:"secretRef,omitempty"`
}

// ImageTrainStatus is what plumbline has proposed, or why it proposes nothing.
type ImageTrainStatus struct {
	// Branch, URL and Commit are those of the open pull request; empty if there is none.
	// +optional
	Branch string `json:"branch,omitempty" redact:"-"`
	// +optional
	URL string `json:"url,omitempty" redact:"-"`
	// +optional
	Commit string `json:"commit,omitempty" redact:"-"`
	// Aliases are what it replaces: al2023@v20251103 → al2023@v20261120.
	// +listType=atomic
	// +optional
	Aliases []string `json:"aliases,omitempty" redact:"-"`
	// Message is what plumbline waits for, or what failed.
	// +optional
	Message string `json:"message,omitempty"`
}

// defaultMinAge is the age from which a release is proposed.
const defaultMinAge = 72 * time.Hour

// GetMinAge returns how old a release must be.
func (t *ImageTrain) GetMinAge() (time.Duration, error) {
	if t.MinAge == "" {
		return defaultMinAge, nil
	}
	return parseAge("spec.images.minAge", t.MinAge)
}

// GetMaxAge returns how old the AMIs of an alias may be; 0 without a limit.
func (t *ImageTrain) GetMaxAge() (time.Duration, error) {
	if t.MaxAge == "" {
		return 0, nil
	}
	return parseAge("spec.images.maxAge", t.MaxAge)
}

// parseAge parses a duration that may have days.
func parseAge(field, text string) (time.Duration, error) {
	days, rest, found := strings.Cut(text, "d")
	if !found {
		days, rest = "0", text
	}
	n, err := strconv.Atoi(days)
	if err != nil || n > 36500 {
		return 0, fmt.Errorf("%s %q: write days first, such as 3d12h", field, text)
	}
	age := time.Duration(n) * 24 * time.Hour
	if rest == "" {
		return age, nil
	}
	more, err := time.ParseDuration(rest)
	if err != nil {
		return 0, fmt.Errorf("%s %q: write it as 3d12h: %w", field, text, err)
	}
	return age + more, nil
}
