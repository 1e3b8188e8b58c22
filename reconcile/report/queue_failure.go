package report

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/plumbline-dev/plumbline/reconcile/grant"
)

const (
	firstWait = time.Second
	// longestWait is the longest time between two attempts.
	longestWait = 5 * time.Minute
	// longestLimit limits how long a host may ask for no requests: the longest window of GitHub's and GitLab's limits.
	longestLimit = time.Hour
	// retryRejectedSecret is how long a rejected Secret is not tried again: permissions may also be changed on the host.
	retryRejectedSecret = time.Hour
	// retryRejectedStatus is how long to wait after the host rejected the newest status.
	retryRejectedStatus = 15 * time.Minute
)

// attempt is one attempt to post an entry.
type attempt struct {
	entry Entry
	// secret is the version of the Secret that was used.
	secret string
	at     time.Time
	// jitter is between 0 and 1.
	jitter float64
}

// failed records why the host has not accepted an entry, and when to retry. current reports that the host must show
// this entry and none replaces it.
func (l *Lane) failed(a attempt, err error, current bool) {
	why := StableMessage(err)
	switch outcomeOf(err) {
	case giveUp:
		l.resetFailures()
		l.giveUp(a, why, current)
	case retryAWhile:
		if a.at.Sub(a.entry.Since) >= unknownCommitTimeout {
			l.giveUp(a, why, current)
			return
		}
		l.delay(a, why)
	case retryEntry:
		l.delay(a, why)
	case awaitChange:
		l.Refused, l.RefusedAt = a.secret, a.at
		l.stop(a, why, 0)
	case retryHost:
		l.noAnswer(a, err, why)
	}
}

// giveUp gives up an entry, unless it is current: what the host shows instead is no longer true. An entry that has
// replaced it in the meantime stays.
func (l *Lane) giveUp(a attempt, why string, current bool) {
	i := l.index(a.entry.Commit)
	same := i >= 0 && l.Waiting[i].same(a.entry)
	switch {
	case same && current:
		e := &l.Waiting[i]
		e.Attempts, e.NotBefore = max(e.Attempts+1, reportAfter), a.at.Add(retryRejectedStatus)
		e.Failure = fmt.Sprintf("the status on commit %s was not accepted, and plumbline retries every %s: %s",
			ShortCommit(e.Commit), retryRejectedStatus, why)
		return
	case same:
		l.Waiting = slices.Delete(l.Waiting, i, i+1)
	}
	l.Lost = fmt.Sprintf("given up on commit %s: %s", ShortCommit(a.entry.Commit), why)
}

// noAnswer makes the lane wait, unless the host gave no answer for this one commit only: a host examines a commit's
// content, which may take longer than the timeout.
func (l *Lane) noAnswer(a attempt, err error, why string) {
	silent := noAnswer(err)
	if alone := l.Silent == "" || l.Silent == a.entry.Commit; silent && alone && l.Attempts == 0 {
		l.Silent = a.entry.Commit
		l.delay(a, why)
		return
	}
	if i := l.index(a.entry.Commit); silent && i >= 0 {
		l.Waiting[i].Attempts++
	}
	l.stop(a, why, RateLimitOf(err))
}

// stop makes the lane wait.
func (l *Lane) stop(a attempt, why string, limit time.Duration) {
	l.Attempts++
	l.Failure = why
	l.NotBefore = a.at.Add(backoff(l.Attempts, a.jitter))
	if limit > 0 {
		l.NotBefore = latest(l.NotBefore, a.at.Add(limit+backoff(1, a.jitter)))
	}
	if limit > longestWait {
		l.Attempts = max(l.Attempts, reportAfter) // it lasts long enough to be reported
	}
}

// delay makes one entry wait, unless it was replaced.
func (l *Lane) delay(a attempt, why string) {
	if i := l.index(a.entry.Commit); i >= 0 && l.Waiting[i].same(a.entry) {
		e := &l.Waiting[i]
		e.Attempts++
		e.Failure = why
		e.NotBefore = a.at.Add(backoff(e.Attempts, a.jitter))
	}
}

// rejectsSecret reports whether the host rejected this version of the Secret so recently that it is not tried again.
func (l *Lane) rejectsSecret(secret string, now time.Time) bool {
	return l.Refused != "" && l.Refused == secret && now.Sub(l.RefusedAt) < retryRejectedSecret
}

// backoff doubles from a second to five minutes, minus up to a quarter, so that many NodeSyncs do not retry a host at
// the same time.
func backoff(attempts int, jitter float64) time.Duration {
	wait := longestWait
	if shift := attempts - 1; shift < 16 {
		wait = min(longestWait, firstWait<<shift)
	}
	return wait - time.Duration(jitter*float64(wait)/4)
}

// RateLimitOf returns how long the host wants no requests.
func RateLimitOf(err error) time.Duration {
	var limited *RateLimitedError
	if errors.As(err, &limited) {
		return min(limited.RetryAfter, longestLimit)
	}
	return 0
}

// StableMessage returns an error on one line, short enough for a status.
func StableMessage(err error) string {
	const longest = 300
	line := strings.Join(strings.Fields(err.Error()), " ")
	if len(line) > longest {
		line = strings.ToValidUTF8(line[:longest], "") + "…"
	}
	return line
}

// outcome is what happens to a status that was not accepted.
type outcome int

const (
	// retryHost: the host as a whole is unreachable, or wants no requests for a while. It is retried, and nothing else
	// is posted there before; if it gave no answer for one commit only, others continue.
	retryHost outcome = iota
	// retryEntry: this status is retried; others continue.
	retryEntry
	// retryAWhile: like retryEntry, and given up after unknownCommitTimeout.
	retryAWhile
	// awaitChange: nothing is posted there until the Secret or the NodeSync changes.
	awaitChange
	// giveUp: the host will never accept this status.
	giveUp
)

// unknownCommitTimeout is how long a commit may be unknown to a host, because mirrors lag.
const unknownCommitTimeout = time.Hour

// rule is the outcome of one kind of error.
type rule struct {
	matches func(error) bool
	outcome outcome
}

// outcomes is the only place that defines what each answer of a host means. The first rule that matches applies.
func outcomes() []rule {
	return []rule{
		{as[*RateLimitedError](), retryHost},        // 429; 403 with a rate limit
		{as[*UnauthorizedError](), awaitChange},     // 401; 403 without a rate limit
		{as[*SecretError](), awaitChange},           // no token in the Secret
		{as[*grant.RefusedError](), awaitChange},    // the Secret is not for this host
		{apierrors.IsNotFound, awaitChange},         // no such Secret
		{as[*RepositoryError](), awaitChange},       // a URL that is not of a repository
		{as[*MovedError](), awaitChange},            // 3xx to another host
		{as[*NotFoundError](), retryAWhile},         // 404; GitHub's 422 for an unknown commit
		{rejected(http.StatusConflict), retryEntry}, // 409: GitLab is busy with this commit
		{as[*RejectedError](), giveUp},              // 400, 422 and the like
		{away, retryHost},                           // no answer; a gateway's 502, 503, 504; 408
		{as[*UnavailableError](), retryEntry},       // 500 and the like: the cause may be this status
	}
}

// outcomeOf covers every error: those that the table does not contain are retried.
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
		var e *RejectedError
		return errors.As(err, &e) && e.Code == code
	}
}

// noAnswer reports whether a host gave no answer.
func noAnswer(err error) bool {
	var e *UnavailableError
	return errors.As(err, &e) && e.Code == 0
}

// away reports whether a host gave no answer, or a gateway answered instead.
func away(err error) bool {
	var e *UnavailableError
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case 0, http.StatusRequestTimeout, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}
