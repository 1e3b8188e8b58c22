package apply

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/internal/shortlist"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// ConflictError reports that fields belong to other managers, because another client wrote between the Plan and its
// Apply. The next Plan includes that write.
type ConflictError struct {
	Ref              render.Ref
	Managers, Fields []string
}

// Error returns the managers and the fields.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("apply %s: %s is owned by %s: plumbline compares it again, and applies the value in Git if the policy allows it",
		e.Ref, strings.Join(e.Fields, ", "), strings.Join(e.Managers, ", "))
}

// InvalidError reports that the API server, or a policy of the cluster, rejects the object.
type InvalidError struct {
	Ref      render.Ref
	Problems []string
	Err      error
}

// Error returns the object and each problem.
func (e *InvalidError) Error() string {
	return fmt.Sprintf("apply %s: the API server refuses it: %s: correct it in Git", e.Ref, strings.Join(e.Problems, "; "))
}

// Unwrap returns the API server's error.
func (e *InvalidError) Unwrap() error { return e.Err }

// AdmissionError reports that a webhook or a policy of the cluster denies a write.
type AdmissionError struct {
	Ref render.Ref
	Err error
}

// Error returns the object; the API server's message contains who denies it, and why.
func (e *AdmissionError) Error() string {
	return fmt.Sprintf("apply %s: %v: change it in Git, or the webhook or policy that denies it", e.Ref, e.Err)
}

// Unwrap returns the API server's error.
func (e *AdmissionError) Unwrap() error { return e.Err }

// WebhookError reports that a webhook that is required for a write does not respond.
type WebhookError struct {
	Ref     render.Ref
	Webhook string
	Err     error
}

// Error returns the object and the webhook.
func (e *WebhookError) Error() string {
	return fmt.Sprintf("apply %s: webhook %s does not answer: %v: repair it, or delete its webhook configuration", e.Ref, e.Webhook, e.Err)
}

// Unwrap returns the API server's error.
func (e *WebhookError) Unwrap() error { return e.Err }

// MutatedError reports that fields differ after the write: a mutating webhook or policy of the cluster changes them,
// and would do so again.
type MutatedError struct {
	Ref    render.Ref
	Fields []plan.Field
	// Object is the API server's response.
	Object *unstructured.Unstructured
}

// maxFields limits how many fields one message lists.
const maxFields = 5

// Error returns the object and the fields, and what to do.
func (e *MutatedError) Error() string {
	return fmt.Sprintf("apply %s: %s: a mutating webhook or policy of this cluster changes it: exempt NodePools and EC2NodeClasses from it, or set its value in Git", e.Ref, e.Changes())
}

// Changes lists the first fields, with their values in Git and in the cluster.
func (e *MutatedError) Changes() string {
	var parts []string
	for _, f := range e.Fields[:min(maxFields, len(e.Fields))] {
		parts = append(parts, fmt.Sprintf("%s is %q in Git and %q after the apply", f.Path, f.To, f.From))
	}
	return strings.Join(parts, ", ") + moreFields(", ", e.Fields)
}

// RepeatedRevertError reports that edits of an object were reverted repeatedly, which may replace nodes each time:
// another controller makes them, and plumbline leaves them unchanged for a while.
type RepeatedRevertError struct {
	Ref     render.Ref
	Fields  []plan.Field
	Editors []string
	// Times is how often they were reverted.
	Times int
}

// Error returns the object, the fields, who changes them, and what to do.
func (e *RepeatedRevertError) Error() string {
	return fmt.Sprintf("%s: %s: plumbline reverted it %d times within an hour, and each time may replace its nodes; correction is paused: stop the client that changes it, or set its value in Git; run plumbline reconcile to correct it again",
		e.Ref, e.Changes(), e.Times)
}

// Changes lists the first fields, and who changes them.
func (e *RepeatedRevertError) Changes() string {
	var paths []string
	for _, f := range e.Fields[:min(maxFields, len(e.Fields))] {
		paths = append(paths, f.Path)
	}
	by := "another client"
	if len(e.Editors) > 0 {
		by = strings.Join(e.Editors, ", ")
	}
	return strings.Join(paths, ", ") + moreFields(" ", e.Fields) + " changed by " + by
}

// moreFields counts the fields that are not listed.
func moreFields[T any](before string, fields []T) string {
	if more := shortlist.More(before, len(fields)-maxFields); more != "" {
		return more + " fields"
	}
	return ""
}

// StaleError reports that the object was changed or deleted since it was planned.
type StaleError struct {
	Ref render.Ref
	Err error
}

// Error returns the object.
func (e *StaleError) Error() string {
	return fmt.Sprintf("apply %s: it changed since it was compared, and is compared again", e.Ref)
}

// Unwrap returns the API server's error.
func (e *StaleError) Unwrap() error { return e.Err }

// TerminatingError reports that the object is being deleted: the write has no effect, and the object must be recreated.
type TerminatingError struct{ Ref render.Ref }

// Error returns the object.
func (e *TerminatingError) Error() string {
	return fmt.Sprintf("apply %s: it is terminating and will be recreated once deleted", e.Ref)
}

// WaitingError reports that an object was skipped because the class that it references could not be created.
type WaitingError struct{ Ref, For render.Ref }

// Error returns both.
func (e *WaitingError) Error() string {
	return fmt.Sprintf("apply %s: it references %s, which could not be created", e.Ref, e.For)
}

// NotServedError reports that the API server does not serve the kind.
type NotServedError struct {
	Ref render.Ref
	Err error
}

// Error returns the object.
func (e *NotServedError) Error() string {
	return fmt.Sprintf("apply %s: the API server does not serve its kind: %v: install the karpenter-crd chart", e.Ref, e.Err)
}

// Unwrap returns the API server's error.
func (e *NotServedError) Unwrap() error { return e.Err }

// The API server's messages about admission
// (k8s.io/apiserver/pkg/admission/plugin/webhook/{errors/statuserror,generic/webhook}.go and
// plugin/policy/validating/dispatcher.go).
var (
	denied        = regexp.MustCompile(`^admission webhook "[^"]+" denied the request|ValidatingAdmissionPolicy '[^']+' with binding '[^']+' denied request`)
	webhookFailed = regexp.MustCompile(`failed calling webhook "([^"]+)"`)

	deniedByWebhook = regexp.MustCompile(`admission webhook "([^"]+)" denied the request`)
	deniedByPolicy  = regexp.MustCompile(`ValidatingAdmissionPolicy '([^']+)' with binding '[^']+' denied request`)
)

// deniers returns the patterns of the API server's messages for a denied write, by the kind of the denier.
func deniers() []struct {
	kind  string
	words *regexp.Regexp
} {
	return []struct {
		kind  string
		words *regexp.Regexp
	}{
		{"webhook", deniedByWebhook},
		{"ValidatingAdmissionPolicy", deniedByPolicy},
	}
}

// Denied returns from an error who denied a write, and why.
func Denied(err error) (by, reason string) {
	message := err.Error()
	for _, denier := range deniers() {
		if found := denier.words.FindStringSubmatchIndex(message); found != nil {
			return denier.kind + " " + message[found[2]:found[3]], strings.TrimLeft(message[found[1]:], ": ")
		}
	}
	return "admission", message
}

// classify converts the API server's error to one of the errors above. Others, such as a timeout or a missing
// permission, are wrapped.
func classify(ref render.Ref, err error) error {
	switch {
	case denied.MatchString(err.Error()):
		return &AdmissionError{Ref: ref, Err: err}
	case webhookFailed.MatchString(err.Error()):
		return &WebhookError{Ref: ref, Webhook: webhookFailed.FindStringSubmatch(err.Error())[1], Err: err}
	case apierrors.IsConflict(err) && len(causes(err, metav1.CauseTypeFieldManagerConflict)) > 0:
		return conflict(ref, causes(err, metav1.CauseTypeFieldManagerConflict))
	case apierrors.IsConflict(err):
		return &StaleError{Ref: ref, Err: err}
	case apierrors.IsInvalid(err):
		return &InvalidError{Ref: ref, Problems: problems(err), Err: err}
	case isAbout(err, "namespaces"):
		return fmt.Errorf("apply %s: its namespace does not exist: create it, or correct metadata.namespace: %w", ref, err)
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return &NotServedError{Ref: ref, Err: err}
	}
	return fmt.Errorf("apply %s: %w", ref, err)
}

// isAbout reports whether an object of a resource, and not the written one, does not exist.
func isAbout(err error, resource string) bool {
	var status apierrors.APIStatus
	return apierrors.IsNotFound(err) && errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Kind == resource
}

func conflict(ref render.Ref, causes []metav1.StatusCause) *ConflictError {
	e := &ConflictError{Ref: ref}
	for _, cause := range causes {
		e.Fields = append(e.Fields, strings.TrimPrefix(cause.Field, "."))
		// conflict with "<manager>" using <version>
		// (structured-merge-diff, apimachinery pkg/util/managedfields/internal/conflict.go)
		if _, after, found := strings.Cut(cause.Message, `"`); found {
			manager, _, _ := strings.Cut(after, `"`)
			e.Managers = append(e.Managers, manager)
		}
	}
	slices.Sort(e.Managers)
	e.Managers = slices.Compact(e.Managers)
	return e
}

func problems(err error) []string {
	var found []string
	for _, cause := range causes(err, "") {
		found = append(found, strings.TrimPrefix(cause.Field+": "+cause.Message, ": "))
	}
	if len(found) == 0 {
		found = []string{err.Error()}
	}
	return found
}

// causes returns the causes of one type in the API server's error; of all types if it is empty.
func causes(err error, of metav1.CauseType) []metav1.StatusCause {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(status.Status().Details.Causes), func(c metav1.StatusCause) bool {
		return of != "" && c.Type != of
	})
}
