package report

import (
	"cmp"
	"fmt"
	"time"
)

// Task is what a host was asked for; the zero value is to post a commit status.
type Task struct {
	// What is it in words, and Right what a token may for it.
	What, Right string
}

func (t Task) what() string { return cmp.Or(t.What, "post a commit status") }

func (t Task) right() string { return cmp.Or(t.Right, "write commit statuses") }

// RepositoryError says that a URL names no repository on a host that takes
// commit statuses.
type RepositoryError struct {
	URL, Reason string
}

// Error says what is wrong with the URL.
func (e *RepositoryError) Error() string {
	return fmt.Sprintf("post a commit status for %s: the URL %s: set report.url to the repository's web page", e.URL, e.Reason)
}

// SecretError says which key of the report's Secret cannot be used.
type SecretError struct {
	Key, Reason string
}

// Error names the key.
func (e *SecretError) Error() string {
	return fmt.Sprintf("the key %s of the report's secret %s", e.Key, e.Reason)
}

// UnauthorizedError says that the host refuses the token.
type UnauthorizedError struct {
	Task
	Host, Said string
}

// Error says what to look at.
func (e *UnauthorizedError) Error() string {
	return fmt.Sprintf("%s on %s: the host refuses the token%s: give one that may %s", e.what(), e.Host, said(e.Said), e.right())
}

// RateLimitedError says that the host wants no requests for a while.
type RateLimitedError struct {
	Task
	Host string
	// RetryAfter is how long; 0 where the host did not say.
	RetryAfter time.Duration
}

// Error names the host. How long it takes changes at each try, so it is not said.
func (e *RateLimitedError) Error() string {
	return fmt.Sprintf("%s on %s: the host limits the rate of requests: it is tried again later", e.what(), e.Host)
}

// NotFoundError says that the host has no such repository or commit. Repository is empty
// where statuses go to a URL without one.
type NotFoundError struct {
	Task
	Host, Repository, Commit string
}

// Error names both: no host says which of them it is.
func (e *NotFoundError) Error() string {
	switch {
	case e.Repository == "":
		return fmt.Sprintf("post a commit status on %s: nothing accepts it there: check report.url", e.Host)
	case e.Commit == "":
		return fmt.Sprintf("%s on %s: no repository %s with that, or hidden from the token: check report.url and the token's rights", e.what(), e.Host, e.Repository)
	}
	return fmt.Sprintf("post a commit status on %s: no repository %s with commit %s, or hidden from the token: check report.url and the token's rights", e.Host, e.Repository, e.Commit)
}

// RejectedError says that the host does not take the status as it is.
type RejectedError struct {
	Task
	Host string
	Code int
	Said string
}

// Error has the host's own words.
func (e *RejectedError) Error() string {
	return fmt.Sprintf("%s on %s: rejected with code %d%s: check that report.provider is the kind of this host", e.what(), e.Host, e.Code, said(e.Said))
}

// MovedError says that the host redirects to where the token is not sent.
type MovedError struct {
	Task
	Host, To string
}

// Error names the other host.
func (e *MovedError) Error() string {
	return fmt.Sprintf("%s on %s: it redirects to %s, where the token is not sent: set report.url to the new place", e.what(), e.Host, e.To)
}

// UnavailableError says that the host did not answer, or has an error of its own.
type UnavailableError struct {
	Task
	Host string
	// Code is the HTTP status; 0 where there was no answer.
	Code int
	Err  error
}

// Error says what happened.
func (e *UnavailableError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s on %s: %v: it is tried again later", e.what(), e.Host, e.Err)
	}
	return fmt.Sprintf("%s on %s: the host answers with code %d: it is tried again later", e.what(), e.Host, e.Code)
}

// Unwrap returns what the network said.
func (e *UnavailableError) Unwrap() error { return e.Err }

func said(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}
