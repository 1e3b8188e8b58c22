package fault

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
// table does not know is Transient. Of joined errors the gravest speaks, and
// the message is that of all.
func Classify(err error) *Error {
	if err == nil {
		return nil
	}
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return gravest(err, joined.Unwrap())
	}
	for _, r := range table() {
		if r.matches(err) {
			return &Error{Class: r.class, Reason: r.reason, Err: err}
		}
	}
	return &Error{Class: Transient, Reason: "Failed", Err: err}
}

func gravest(all error, errs []error) *Error {
	worst := &Error{Class: Superseded, Reason: "Failed", Err: all}
	for i, err := range errs {
		if c := Classify(err); c != nil && (i == 0 || c.Class > worst.Class) {
			worst.Class, worst.Reason = c.Class, c.Reason
		}
	}
	return worst
}

func cancelled(err error) bool { return errors.Is(err, context.Canceled) }

func timedOut(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

func conflict(err error) bool { return apierrors.IsConflict(err) }

func forbidden(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }
