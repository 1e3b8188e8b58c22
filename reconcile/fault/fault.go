package fault

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/plumbline-dev/plumbline/internal/shortlist"
	"github.com/plumbline-dev/plumbline/provision/allowance"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

// Class is what an error means for the next reconcile.
type Class int

// The classes, in increasing severity.
const (
	// Superseded: newer state is known; reconcile again at once.
	Superseded Class = iota
	// Waiting: nothing is wrong, something is not ready yet. A watch triggers the next reconcile.
	Waiting
	// Transient: it may resolve by itself; retry after retryInterval.
	Transient
	// Terminal: a person must change the commit, the NodeSync or the cluster.
	Terminal
)

// String returns the class's name.
func (c Class) String() string {
	return [...]string{"Superseded", "Waiting", "Transient", "Terminal"}[c]
}

// Error is a classified error.
type Error struct {
	Class Class
	// Reason is the reason for a condition, in CamelCase.
	Reason string
	// Err contains what was tried, on which object, and what to do about it.
	Err error
	// Short is the Brief to show instead of that of Err; nil if that of Err is shown.
	Short *Brief
}

// Error returns the message of the error and, if the API server's message does not say it, what to do about it.
func (e *Error) Error() string {
	message := e.Err.Error()
	for _, remedy := range []func(string) string{missingRule, conversion} {
		// A wrapped Error may have added it already.
		if words := remedy(message); words != "" && !strings.Contains(message, words) {
			return message + ": " + words
		}
	}
	return message
}

// Map returns the error with changed texts: class and reason stay, and the wrapped error is dropped.
func (e *Error) Map(change func(string) string) *Error {
	brief := e.Brief().Map(change)
	return &Error{Class: e.Class, Reason: e.Reason, Err: errors.New(change(e.Error())), Short: &brief}
}

// Unwrap returns the wrapped error.
func (e *Error) Unwrap() error { return e.Err }

// Constructors for errors of steps that have no type of their own. err contains what was tried, on which object, and
// what to do about it; the constructor classifies it.

// SourceFailed reports that a reference of the source in the NodeSync is missing or invalid.
func SourceFailed(err error) *Error { return terminal(v1alpha1.ReasonSourceFailed, err) }

// Unpromoted reports that the rings cannot decide which commit a cluster takes.
func Unpromoted(err error) *Error { return terminal(v1alpha1.ReasonPromotionFailed, err) }

// Unverifiable reports a signature that cannot be checked, because its keys cannot be read.
func Unverifiable(err error) *Error { return terminal(v1alpha1.ReasonVerificationError, err) }

// ChartFailed reports that a reference of the chart in the NodeSync is missing or invalid.
func ChartFailed(err error) *Error { return terminal(v1alpha1.ReasonChartFailed, err) }

// Refused reports a commit that requires something that is not allowed.
func Refused(err error) *Error { return terminal(v1alpha1.ReasonRefused, err) }

// Conflict reports something that belongs to another client, or another NodeSync.
func Conflict(err error) *Error { return terminal(v1alpha1.ReasonConflict, err) }

// Held reports a change that a person must release.
func Held(err error) *Error { return terminal(v1alpha1.ReasonHeld, err) }

// Stalled reports a change that makes no progress.
func Stalled(err error) *Error { return terminal(v1alpha1.ReasonStalled, err) }

// UpgradeFailed reports a change of the charts that did not become ready.
func UpgradeFailed(err error) *Error { return terminal(v1alpha1.ReasonUpgradeFailed, err) }

// StatusNotWritten reports a status that the API server rejects.
func StatusNotWritten(err error) *Error { return transient(v1alpha1.ReasonStatusNotWritten, err) }

// OlderRevision reports a Git host that serves an older revision than before.
func OlderRevision(err error) *Error { return transient(v1alpha1.ReasonOlderRevision, err) }

// Waits reports something that is not ready yet.
func Waits(err error) *Error { return waiting(v1alpha1.ReasonWaiting, err) }

// CloudUnverified reports an AWS account that is not confirmed to be this cluster's.
func CloudUnverified(err error) *Error { return waiting(v1alpha1.ReasonCloudUnverified, err) }

// NamespaceTerminating reports a namespace in which nothing can be created any more.
func NamespaceTerminating(err error) *Error {
	return waiting(v1alpha1.ReasonNamespaceTerminating, err)
}

// ReadAgain reports something that changed while it was read.
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

// manyErrors are errors of many objects, usually with the same cause.
type manyErrors []error

// maxInMessage limits how many of them a message contains.
const maxInMessage = 3

// Several joins errors; nil if there are none.
func Several(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	return manyErrors(errs)
}

// Error returns the first messages, and the number of the others.
func (m manyErrors) Error() string {
	words := make([]string, 0, len(m))
	for _, err := range m {
		words = append(words, err.Error())
	}
	return shortlist.Items(words, maxInMessage, "; ")
}

// Unwrap returns all of them.
func (m manyErrors) Unwrap() []error { return m }

// Apart splits joined errors.
func Apart(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// refusal matches the API server's message for a request that no role allows
// (k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/errors.go).
var refusal = regexp.MustCompile(`User "([^"]+)" cannot (\w+) resource "([^"]+)" in API group "([^"]*)" (?:at the cluster scope|in the namespace "([^"]+)")`)

// missingRule returns the rule that allows the request which, according to the message, is forbidden; empty if no role
// is missing.
func missingRule(message string) string {
	var rules []string
	for _, words := range refusal.FindAllStringSubmatch(message, -1) {
		user, verb, resource, group, namespace := words[1], words[2], words[3], words[4], words[5]
		role := "a ClusterRole"
		if namespace != "" {
			role = "a Role in namespace " + namespace
		}
		rules = append(rules, fmt.Sprintf("grant %s the rule {apiGroups: [%[3]q], resources: [%[4]q], verbs: [%[5]q]} in %[2]s",
			account(user), role, group, resource, verb))
	}
	slices.Sort(rules)
	return strings.Join(slices.Compact(rules), "; ")
}

// notAllowed describes briefly what no role allows; empty if no role is missing.
func notAllowed(message string) string {
	words := refusal.FindStringSubmatch(message)
	if words == nil {
		return ""
	}
	user, verb, resource, group, namespace := words[1], words[2], words[3], words[4], words[5]
	role := "ClusterRole"
	if namespace != "" {
		role = "Role in namespace " + namespace
	}
	if group != "" {
		resource += "." + group
	}
	return fmt.Sprintf("%s may not %s %s: add the rule to its %s", account(user), verb, resource, role)
}

// account formats a user name.
func account(user string) string {
	if name, is := strings.CutPrefix(user, "system:serviceaccount:"); is {
		return "ServiceAccount " + strings.Replace(name, ":", "/", 1)
	}
	return "user " + user
}

// unconverted reports whether a request failed because of a missing conversion.
func unconverted(err error) bool {
	_, ok := cluster.Unconverted(err.Error())
	return ok
}

// conversion returns what to do about a conversion webhook in a message; empty if there is none.
func conversion(message string) string {
	kind, ok := cluster.Unconverted(message)
	if !ok {
		return ""
	}
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	crd := resource.GroupResource().String()
	return fmt.Sprintf("no controller serves the conversion webhook of crd %s, so its objects stored as %s can be neither read nor written: "+
		"start the controller that serves it, or, if these objects match the storage version, remove the webhook: "+
		`kubectl patch crd %s --type=merge -p '{"spec":{"conversion":{"strategy":"None","webhook":null}}}'`, crd, kind.Version, crd)
}

// OnlyGit reports whether the error only contains content of Git, names, and content of the live definitions: no value
// of a Secret is in it.
func (e *Error) OnlyGit() bool { return onlyGit(e.Err) }

// onlyGit matches by type, and for joined errors. A wrapping error may add other text.
func onlyGit(err error) bool {
	switch err := err.(type) { //nolint:errorlint // one that wraps it may have other words, too
	case render.Error, render.Errors, *render.MissingError, *render.EmptyError, *source.SymlinkError,
		*plan.MissingClassError, *plan.RefusedError, *plan.ConflictError, *apply.InvalidError:
		return true
	case *allowance.RefusedError:
		return err.OnlyGit()
	case interface{ Unwrap() []error }:
		return onlyJoined(err.(error).Error(), err.Unwrap())
	}
	return false
}

// onlyJoined reports whether a message consists only of the errors' messages, one per line.
func onlyJoined(message string, parts []error) bool {
	var lines []string
	for _, part := range parts {
		if !onlyGit(part) {
			return false
		}
		lines = append(lines, part.Error())
	}
	return message == strings.Join(lines, "\n")
}
