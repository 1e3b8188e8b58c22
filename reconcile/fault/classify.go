package fault

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/plumbline-dev/plumbline/confine"
	"github.com/plumbline-dev/plumbline/contradiction"
	"github.com/plumbline-dev/plumbline/internal/configmap"
	"github.com/plumbline-dev/plumbline/provision/allowance"
	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/iam"
	"github.com/plumbline-dev/plumbline/provision/karpenter"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/reconcile/source/signature"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// rule is what errors of one type mean.
type rule struct {
	matches func(error) bool
	class   Class
	reason  string
}

// as matches the errors of one type, even if they are wrapped.
func as[T error](class Class, reason string) rule {
	return rule{class: class, reason: reason, matches: func(err error) bool {
		var target T
		return errors.As(err, &target)
	}}
}

// is matches by a predicate.
func is(matches func(error) bool, class Class, reason string) rule {
	return rule{matches: matches, class: class, reason: reason}
}

// Classify returns what an error means for the NodeSync. It is total: an error that is not in the table is Transient.
// For joined errors, even if they are wrapped, the most severe decides, and the message contains all.
func Classify(err error) *Error {
	if err == nil {
		return nil
	}
	if known, ok := err.(*Error); ok { //nolint:errorlint // one that is wrapped is another
		return known
	}
	known, joined := descend(err)
	if known != nil {
		return &Error{Class: known.Class, Reason: known.Reason, Err: err}
	}
	for _, r := range table() {
		// What only matches below the join is one of several, which are compared by severity.
		if r.matches(err) && (joined == nil || !r.matches(joined)) {
			return &Error{Class: r.class, Reason: r.reason, Err: err}
		}
	}
	if parts, ok := joined.(interface{ Unwrap() []error }); ok {
		if worst := mostSevere(parts.Unwrap()); worst != nil {
			return &Error{Class: worst.Class, Reason: worst.Reason, Err: err}
		}
	}
	return &Error{Class: Transient, Reason: "Failed", Err: err}
}

// descend unwraps an error until it finds a classified error or joined errors.
func descend(err error) (known *Error, joined error) {
	for ; err != nil; err = errors.Unwrap(err) {
		if known, ok := err.(*Error); ok { //nolint:errorlint // each wrapping is looked at by itself
			return known, nil
		}
		if _, ok := err.(interface{ Unwrap() []error }); ok {
			return nil, err
		}
	}
	return nil, nil
}

// mostSevere returns the most severe of several errors, the first of equals; nil if there is none.
func mostSevere(errs []error) *Error {
	var worst *Error
	for _, err := range errs {
		if c := Classify(err); c != nil && (worst == nil || c.Class > worst.Class) {
			worst = c
		}
	}
	return worst
}

func cancelled(err error) bool { return errors.Is(err, context.Canceled) }

func timedOut(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

func conflict(err error) bool { return apierrors.IsConflict(err) }

// Unstorable reports whether the API server would always reject an object: it is invalid, or larger than the API server
// or etcd accepts. etcd's messages arrive as an internal error (go.etcd.io/etcd/api/v3 v3rpc/rpctypes,
// google.golang.org/grpc).
func Unstorable(err error) bool {
	if err == nil {
		return false
	}
	if apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err) {
		return true
	}
	return strings.Contains(err.Error(), "etcdserver: request is too large") ||
		strings.Contains(err.Error(), "trying to send message larger than max")
}

func forbidden(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }

func busy(err error) bool {
	return apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsServiceUnavailable(err)
}

// noResponse reports whether there was no response. Errors of other parties have their own types, which the table
// checks first: what remains is the API server's.
func noResponse(err error) bool {
	var sent *url.Error
	return errors.As(err, &sent) && (utilnet.IsConnectionRefused(sent) || utilnet.IsConnectionReset(sent) || utilnet.IsHTTP2ConnectionLost(sent) || utilnet.IsProbableEOF(sent))
}

// table is the one place that defines what each typed error means. The first rule that matches decides.
func table() []rule {
	return slices.Concat(ofSource(), ofCommit(), ofCharts(), ofVersions(), ofCloud(), ofApply(), ofRequests())
}

// ofSource returns the rules for errors of the source.
func ofSource() []rule {
	return []rule{
		as[*source.UnreachableError](Transient, v1alpha1.ReasonSourceFailed),
		as[*source.StaleError](Superseded, v1alpha1.ReasonSourceFailed),
		as[*source.MissingError](Transient, v1alpha1.ReasonSourceFailed),
		as[*source.SpaceError](Transient, v1alpha1.ReasonSourceFailed),
		as[*source.StoreError](Transient, v1alpha1.ReasonSourceFailed),
		as[*source.URLError](Terminal, v1alpha1.ReasonSourceFailed),
		as[*source.RefError](Terminal, v1alpha1.ReasonSourceFailed),
		as[*source.AuthError](Terminal, v1alpha1.ReasonSourceFailed),
		as[*source.NotFoundError](Terminal, v1alpha1.ReasonSourceFailed),
		as[*source.CertificateError](Terminal, v1alpha1.ReasonSourceFailed),
		as[*source.HostKeyError](Terminal, v1alpha1.ReasonSourceFailed),
		as[*source.LimitError](Terminal, v1alpha1.ReasonSourceFailed),
		as[*source.FluxRefError](Terminal, v1alpha1.ReasonSourceFailed),
		as[*source.ArtifactError](Transient, v1alpha1.ReasonSourceFailed),
		as[*signature.Error](Terminal, v1alpha1.ReasonVerificationError),
		as[*signature.KeysError](Terminal, v1alpha1.ReasonVerificationError),
		as[*source.HistoryError](Terminal, v1alpha1.ReasonVerificationError),
		as[*grant.RefusedError](Terminal, v1alpha1.ReasonSecretRefused),
		as[*source.SecretError](Terminal, v1alpha1.ReasonSourceFailed),
	}
}

// ofCommit returns the rules for errors of a commit.
func ofCommit() []rule {
	return []rule{
		as[*render.MissingError](Terminal, v1alpha1.ReasonRefused),
		as[*render.EmptyError](Terminal, v1alpha1.ReasonRefused),
		as[render.Error](Terminal, v1alpha1.ReasonInvalid),
		as[*render.SlowError](Terminal, v1alpha1.ReasonRefused),
		as[render.Errors](Terminal, v1alpha1.ReasonInvalid),
		as[*source.SymlinkError](Terminal, v1alpha1.ReasonInvalid),
		as[*confine.LimitError](Terminal, v1alpha1.ReasonRefused),
		as[*confine.ChildError](Transient, "Failed"),
		as[*plan.MissingClassError](Terminal, v1alpha1.ReasonInvalid),
		as[*plan.RefusedError](Terminal, v1alpha1.ReasonRefused),
		as[*plan.ConflictError](Terminal, v1alpha1.ReasonConflict),
		as[*plan.PolicyDeniedError](Terminal, v1alpha1.ReasonPolicyDenied),
		as[*plan.InvalidPolicyError](Terminal, v1alpha1.ReasonPolicyInvalid),
		as[*plan.InvalidCalendarError](Terminal, v1alpha1.ReasonGuardInvalid),
	}
}

// ofCharts returns the rules for errors of charts and their installation.
func ofCharts() []rule {
	return []rule{
		as[*charts.UnreachableError](Transient, v1alpha1.ReasonChartFailed),
		as[*release.BusyError](Waiting, v1alpha1.ReasonWaiting),
		as[*release.TerminatingError](Waiting, v1alpha1.ReasonWaiting),
		as[*charts.InvalidRefError](Terminal, v1alpha1.ReasonChartFailed),
		as[*charts.NotFoundError](Terminal, v1alpha1.ReasonChartFailed),
		as[*charts.AuthError](Terminal, v1alpha1.ReasonChartFailed),
		as[*charts.CertificateError](Terminal, v1alpha1.ReasonChartFailed),
		as[*charts.SecretError](Terminal, v1alpha1.ReasonChartFailed),
		as[*charts.UnsignedError](Terminal, v1alpha1.ReasonVerificationError),
		as[*charts.PinnedError](Terminal, v1alpha1.ReasonRefused),
		as[*charts.MovedError](Terminal, v1alpha1.ReasonHeld),
		as[*charts.DigestError](Terminal, v1alpha1.ReasonChartFailed),
		as[*schema.HeavyError](Terminal, v1alpha1.ReasonRefused),
		as[*charts.MalformedError](Terminal, v1alpha1.ReasonChartFailed),
		as[*charts.RenderError](Terminal, v1alpha1.ReasonChartFailed),
		as[*charts.LookupError](Terminal, v1alpha1.ReasonRefused),
		as[*charts.HookError](Terminal, v1alpha1.ReasonRefused),
		as[*allowance.RefusedError](Terminal, v1alpha1.ReasonRefused),
		as[*contradiction.Error](Terminal, v1alpha1.ReasonRefused),
		as[*charts.ValuesError](Terminal, v1alpha1.ReasonInvalid),
		as[*charts.LayerError](Terminal, v1alpha1.ReasonInvalid),
		as[*survey.ForeignReleaseError](Terminal, v1alpha1.ReasonConflict),
		as[*survey.ForeignObjectsError](Terminal, v1alpha1.ReasonConflict),
		as[*survey.ReconciledError](Terminal, v1alpha1.ReasonConflict),
		as[*survey.ElsewhereError](Terminal, v1alpha1.ReasonConflict),
		as[*survey.OtherChartError](Terminal, v1alpha1.ReasonConflict),
		as[*survey.NewerError](Terminal, v1alpha1.ReasonRefused),
		as[*release.RejectedError](Terminal, v1alpha1.ReasonChartFailed),
		as[*release.ForbiddenError](Terminal, "Forbidden"),
		as[*release.DroppedCRDsError](Terminal, v1alpha1.ReasonRefused),
		as[*release.UnprotectedCRDsError](Terminal, v1alpha1.ReasonRefused),
		as[*charts.ForeignCRDsError](Terminal, v1alpha1.ReasonRefused),
		as[*release.NoRevisionError](Terminal, v1alpha1.ReasonUpgradeFailed),
	}
}

// ofVersions returns the rules for errors of Karpenter's versions, and of an upgrade.
func ofVersions() []rule {
	return []rule{
		as[*karpenter.KubernetesError](Terminal, v1alpha1.ReasonRefused),
		as[*karpenter.UntestedError](Terminal, v1alpha1.ReasonHeld),
		as[*karpenter.ServedCRDsError](Terminal, v1alpha1.ReasonHeld),
		as[*iam.MissingError](Terminal, "Forbidden"),
		as[*iam.UnreadError](Terminal, v1alpha1.ReasonHeld),
		as[*karpenter.VersionError](Terminal, v1alpha1.ReasonRefused),
		as[*karpenter.SkippedHopError](Terminal, v1alpha1.ReasonRefused),
		as[*karpenter.DowngradeError](Terminal, v1alpha1.ReasonRefused),
		as[*karpenter.LostVersionError](Terminal, v1alpha1.ReasonRefused),
		as[*karpenter.ValuesError](Terminal, v1alpha1.ReasonInvalid),
	}
}

// ofCloud returns the rules for errors of AWS.
func ofCloud() []rule {
	return []rule{
		as[*cloud.DeniedError](Transient, "Denied"),
		as[*cloud.CredentialsError](Transient, "NoCredentials"),
		as[*cloud.ThrottledError](Transient, "Throttled"),
		as[*cloud.PartialError](Transient, "AnswerIncomplete"),
		as[*cloud.UnreachableError](Transient, "Unreachable"),
		as[*cloud.NotFoundError](Transient, "ClusterNotFound"),
		as[*cloud.AnswerError](Transient, "RefusedByAWS"),
	}
}

// ofApply returns the rules for errors of writes to the cluster.
func ofApply() []rule {
	return []rule{
		as[*apply.StaleError](Superseded, v1alpha1.ReasonApplyFailed),
		as[*apply.ConflictError](Superseded, v1alpha1.ReasonConflict),
		as[*apply.TerminatingError](Waiting, v1alpha1.ReasonWaiting),
		as[*apply.WaitingError](Waiting, v1alpha1.ReasonWaiting),
		as[*apply.NotServedError](Waiting, v1alpha1.ReasonWaiting),
		as[*apply.InvalidError](Terminal, v1alpha1.ReasonApplyFailed),
		as[*apply.AdmissionError](Terminal, v1alpha1.ReasonApplyFailed),
		as[*apply.WebhookError](Transient, v1alpha1.ReasonApplyFailed),
		as[*apply.MutatedError](Transient, v1alpha1.ReasonApplyFailed),
		as[*apply.RepeatedRevertError](Terminal, v1alpha1.ReasonConflict),
	}
}

// ofRequests returns the rules for errors of any request.
func ofRequests() []rule {
	return []rule{
		is(unconverted, Terminal, "ConversionFailed"),
		as[*configmap.StuckError](Terminal, v1alpha1.ReasonConflict),
		is(cancelled, Superseded, "Stopped"),
		is(timedOut, Transient, "TimedOut"),
		is(conflict, Superseded, "Conflict"),
		is(forbidden, Terminal, "Forbidden"),
		is(busy, Transient, v1alpha1.ReasonAPIServerBusy),
		is(noResponse, Transient, v1alpha1.ReasonAPIServerUnavailable),
	}
}
