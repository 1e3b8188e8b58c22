package queue

import (
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/report"
)

// outcome is what becomes of a status that was not taken.
type outcome int

const (
	// retryHost: the host as a whole is away, or wants no requests for a while. It is
	// tried again, and nothing else is posted there before; but for one commit on which
	// it is silent others go on.
	retryHost outcome = iota
	// retryEntry: this status is tried again; others go on.
	retryEntry
	// retryAWhile: likewise, and given up after patience.
	retryAWhile
	// awaitChange: nothing is posted there before the Secret, or the NodeSync, is
	// another one.
	awaitChange
	// giveUp: the host will never take this status.
	giveUp
)

// patience is how long a commit may be unknown to a host: mirrors lag.
const patience = time.Hour

// rule says what errors of one sort mean.
type rule struct {
	matches func(error) bool
	outcome outcome
}

// outcomes is the one place that says what each answer of a host means. The first
// rule that matches speaks.
func outcomes() []rule {
	return []rule{
		{as[*report.RateLimitedError](), retryHost},    // 429; 403 with a limit
		{as[*report.UnauthorizedError](), awaitChange}, // 401; 403 without a limit
		{as[*report.SecretError](), awaitChange},       // no token in the Secret
		{as[*grant.RefusedError](), awaitChange},       // a Secret that is not for this host
		{apierrors.IsNotFound, awaitChange},            // no Secret
		{as[*report.RepositoryError](), awaitChange},   // a URL that names no repository
		{as[*report.MovedError](), awaitChange},        // 3xx to another host
		{as[*report.NotFoundError](), retryAWhile},     // 404; GitHub's 422 of an unknown commit
		{rejected(http.StatusConflict), retryEntry},    // 409: GitLab is busy with this commit
		{as[*report.RejectedError](), giveUp},          // 400, 422 and the like
		{away, retryHost},                              // no answer; a gateway's 502, 503, 504; 408
		{as[*report.UnavailableError](), retryEntry},   // 500 and the like: it may be this status
	}
}

// outcomeOf is total: what the table does not know is tried again.
func outcomeOf(err error) outcome {
	for _, r := range outcomes() {
		if r.matches(err) {
			return r.outcome
		}
	}
	return retryEntry
}

func as[E error]() func(error) bool {
	return func(err error) bool {
		var target E
		return errors.As(err, &target)
	}
}

func rejected(code int) func(error) bool {
	return func(err error) bool {
		var e *report.RejectedError
		return errors.As(err, &e) && e.Code == code
	}
}

// noAnswer is of a host that gave none.
func noAnswer(err error) bool {
	var e *report.UnavailableError
	return errors.As(err, &e) && e.Code == 0
}

// away is a host that gave no answer, or a gateway's in its stead.
func away(err error) bool {
	var e *report.UnavailableError
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case 0, http.StatusRequestTimeout, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}
