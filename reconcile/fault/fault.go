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

// Class says what an error means for the next reconcile.
type Class int

// The classes, the gravest last.
const (
	// Superseded: a newer state of the world is known; look again at once.
	Superseded Class = iota
	// Waiting: nothing is wrong, something is not there yet. A watch wakes us.
	Waiting
	// Transient: it may go well by itself; again after retryInterval.
	Transient
	// Terminal: a person has to change the commit, the NodeSync or the cluster.
	Terminal
)

// String returns the class's name.
func (c Class) String() string {
	return [...]string{"Superseded", "Waiting", "Transient", "Terminal"}[c]
}

// Error is a classified error.
type Error struct {
	Class Class
	// Reason is the word for a condition's reason, CamelCase.
	Reason string
	// Err says what was tried, on what, and what to do about it.
	Err error
	// Short is the Brief where that of Err is not to be shown; nil if it is.
	Short *Brief
}

// Error returns the message of what went wrong and, where the API server's words
// leave it to the reader, what to do about it.
func (e *Error) Error() string {
	message := e.Err.Error()
	for _, remedy := range []func(string) string{missingRule, conversion} {
		// One that is wrapped in another has said it already.
		if words := remedy(message); words != "" && !strings.Contains(message, words) {
			return message + ": " + words
		}
	}
	return message
}

// Map is the error with its texts changed: class and reason stay, and what it wraps is gone.
func (e *Error) Map(change func(string) string) *Error {
	brief := e.Brief().Map(change)
	return &Error{Class: e.Class, Reason: e.Reason, Err: errors.New(change(e.Error())), Short: &brief}
}

// Unwrap returns what went wrong.
func (e *Error) Unwrap() error { return e.Err }

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

// manyErrors are errors of many objects, most often with one cause.
type manyErrors []error

// told is how many of them a message spells out.
const told = 3

// Several joins errors; nil if there are none.
func Several(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	return manyErrors(errs)
}

// Error has the words of the first few, and says how many there are beside.
func (m manyErrors) Error() string {
	words := make([]string, 0, len(m))
	for _, err := range m {
		words = append(words, err.Error())
	}
	return shortlist.Items(words, told, "; ")
}

// Unwrap returns all of them.
func (m manyErrors) Unwrap() []error { return m }

// Apart takes joined errors apart.
func Apart(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// refusal is how the API server reports that no role allows a request
// (k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/errors.go).
var refusal = regexp.MustCompile(`User "([^"]+)" cannot (\w+) resource "([^"]+)" in API group "([^"]*)" (?:at the cluster scope|in the namespace "([^"]+)")`)

// missingRule is the rule that allows what the API server's words in a message say
// is not allowed; empty if nothing was refused for want of a role.
func missingRule(message string) string {
	var rules []string
	for _, words := range refusal.FindAllStringSubmatch(message, -1) {
		user, verb, resource, group, namespace := words[1], words[2], words[3], words[4], words[5]
		role := "a ClusterRole"
		if namespace != "" {
			role = "a Role in namespace " + namespace
		}
		rules = append(rules, fmt.Sprintf("grant %s the rule {apiGroups: [%[3]q], resources: [%[4]q], verbs: [%[5]q]} in %[2]s", account(user), role, group, resource, verb))
	}
	slices.Sort(rules)
	return strings.Join(slices.Compact(rules), "; ")
}

// notAllowed says in short what no role allows; empty if nothing was refused for
// want of a role.
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

// account is a user as people know it.
func account(user string) string {
	if name, is := strings.CutPrefix(user, "system:serviceaccount:"); is {
		return "ServiceAccount " + strings.Replace(name, ":", "/", 1)
	}
	return "user " + user
}

// unconverted reports whether a request failed for want of a conversion.
func unconverted(err error) bool {
	_, ok := cluster.Unconverted(err.Error())
	return ok
}

// conversion is what to do about a conversion webhook that a message tells of;
// empty if it tells of none.
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

// OnlyGit reports whether the error is made of nothing but what is in Git, of names, and of what lives
// of the definitions: no value of a Secret has a part in it.
func (e *Error) OnlyGit() bool { return onlyGit(e.Err) }

// onlyGit knows types, and errors that are joined. One that wraps another may have other words.
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

// onlyJoined reports whether a message has the words of errors, a line each, and no other.
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
