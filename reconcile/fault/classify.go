package fault

import (
	"context"
	"errors"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// rule says what errors of one type mean.
type rule struct {
	matches func(error) bool
	class   Class
	reason  string
}

// as matches the errors of one type, wherever they are wrapped.
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

// Classify says what an error means for the NodeSync. It is total: what the
// table does not know is Transient. Of joined errors, however they are wrapped,
// the gravest speaks, and the message is that of all.
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
		// What matches below the joint is one of several, and has to be weighed.
		if r.matches(err) && (joined == nil || !r.matches(joined)) {
			return &Error{Class: r.class, Reason: r.reason, Err: err}
		}
	}
	if parts, ok := joined.(interface{ Unwrap() []error }); ok {
		if worst := gravest(parts.Unwrap()); worst != nil {
			return &Error{Class: worst.Class, Reason: worst.Reason, Err: err}
		}
	}
	return &Error{Class: Transient, Reason: "Failed", Err: err}
}

// descend goes down the wrappings of an error, to one that is classified already
// or to where several are joined.
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

// gravest is the gravest of several errors, the first of equals; nil where there
// is none.
func gravest(errs []error) *Error {
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

// Unstorable says whether the API server refuses an object as it is, whenever it is
// written: it is invalid, or larger than the API server or etcd takes. etcd's words come
// as an internal error (go.etcd.io/etcd/api/v3 v3rpc/rpctypes, google.golang.org/grpc).
func Unstorable(err error) bool {
	if err == nil {
		return false
	}
	if apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err) {
		return true
	}
	return strings.Contains(err.Error(), "etcdserver: request is too large") || strings.Contains(err.Error(), "trying to send message larger than max")
}

func forbidden(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }

func busy(err error) bool {
	return apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsServiceUnavailable(err)
}

// away says whether nobody answered. The other parties have errors of their own
// for that, which the table asks for first: what is left is the API server's.
func away(err error) bool {
	var sent *url.Error
	return errors.As(err, &sent) && (utilnet.IsConnectionRefused(sent) || utilnet.IsConnectionReset(sent) || utilnet.IsHTTP2ConnectionLost(sent) || utilnet.IsProbableEOF(sent))
}
