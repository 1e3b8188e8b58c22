package fault

import "github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"

// What steps find that has no type of its own. err says what was tried, on what, and what
// to do about it; these say what it means.

// SourceFailed is a source that lacks what the NodeSync names for it.
func SourceFailed(err error) *Error { return terminal(v1alpha1.ReasonSourceFailed, err) }

// Unverifiable is a signature that cannot be checked: its keys cannot be read.
func Unverifiable(err error) *Error { return terminal(v1alpha1.ReasonVerificationError, err) }

// ChartFailed is a chart that lacks what the NodeSync names for it.
func ChartFailed(err error) *Error { return terminal(v1alpha1.ReasonChartFailed, err) }

// Refused is a commit that asks for what is not done.
func Refused(err error) *Error { return terminal(v1alpha1.ReasonRefused, err) }

// Conflict is something that another client, or another NodeSync, has already.
func Conflict(err error) *Error { return terminal(v1alpha1.ReasonConflict, err) }

// Held is a change that a person has to release.
func Held(err error) *Error { return terminal(v1alpha1.ReasonHeld, err) }

// Stalled is a change that makes no progress.
func Stalled(err error) *Error { return terminal(v1alpha1.ReasonStalled, err) }

// UpgradeFailed is a change of the charts that did not come up.
func UpgradeFailed(err error) *Error { return terminal(v1alpha1.ReasonUpgradeFailed, err) }

// StatusNotWritten is a status that the API server does not take.
func StatusNotWritten(err error) *Error { return transient(v1alpha1.ReasonStatusNotWritten, err) }

// OlderRevision is a Git host that has an older revision than it had before.
func OlderRevision(err error) *Error { return transient(v1alpha1.ReasonOlderRevision, err) }

// Waits is something that is not there yet.
func Waits(err error) *Error { return waiting(v1alpha1.ReasonWaiting, err) }

// CloudUnverified is an AWS account that is not confirmed to be this cluster's.
func CloudUnverified(err error) *Error { return waiting(v1alpha1.ReasonCloudUnverified, err) }

// NamespaceTerminating is a namespace in which nothing can be created any more.
func NamespaceTerminating(err error) *Error {
	return waiting(v1alpha1.ReasonNamespaceTerminating, err)
}

// ReadAgain is something that has changed while it was read.
func ReadAgain(err error) *Error { return superseded(v1alpha1.ReasonWaiting, err) }

func superseded(reason string, err error) *Error {
	return &Error{Class: Superseded, Reason: reason, Err: err}
}

func waiting(reason string, err error) *Error {
	return &Error{Class: Waiting, Reason: reason, Err: err}
}

func transient(reason string, err error) *Error {
	return &Error{Class: Transient, Reason: reason, Err: err}
}

func terminal(reason string, err error) *Error {
	return &Error{Class: Terminal, Reason: reason, Err: err}
}
