package report

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/plumbline-dev/plumbline/redact"
)

// maxAnswer limits what is read of a host's response.
const maxAnswer = 8 << 10

// wire sends one request and reads the response.
type wire struct {
	client *http.Client
}

// request is a JSON request.
type request struct {
	// method is the HTTP method; if empty, POST.
	method string
	to     string
	// header contains additional headers that the host requires. It may be nil.
	header http.Header
	// body is nil if nothing is sent.
	body any
	// task is the purpose, and long reports whether maxListing of the response is read instead of maxAnswer.
	task Task
	long bool
}

// answer is a host's response.
type answer struct {
	code   int
	header http.Header
	body   []byte
	// message is the message of an error response.
	message string
}

// send makes a request. The error is the context's, the credentials' or an *UnavailableError.
func (w wire) send(ctx context.Context, r request, as credentials) (answer, error) {
	var data []byte
	var err error
	if r.body != nil {
		if data, err = json.Marshal(r.body); err != nil {
			return answer{}, fmt.Errorf("%s: %w", r.task.what(), err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, cmp.Or(r.method, http.MethodPost), r.to, bytes.NewReader(data))
	if err != nil {
		return answer{}, fmt.Errorf("%s: %w", r.task.what(), err)
	}
	maps.Copy(req.Header, r.header)
	if r.header == nil {
		req.Header.Set("Accept", "application/json")
	}
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("User-Agent", "plumbline")
	if err := as.sign(ctx, req.Header, data); err != nil {
		return answer{}, err
	}
	res, err := w.client.Do(req)
	if err != nil {
		return answer{}, unavailable(ctx, r.task, req.URL.Host, err, as)
	}
	defer func() { _ = res.Body.Close() }() // the rest is not read
	body := io.LimitReader(res.Body, maxAnswer)
	if r.long {
		body = io.LimitReader(&shortened{from: io.LimitReader(res.Body, maxReceived), most: maxString}, maxListing)
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return answer{}, unavailable(ctx, r.task, req.URL.Host, err, as)
	}
	a := answer{code: res.StatusCode, header: res.Header, body: text}
	if a.code >= http.StatusMultipleChoices {
		a.message = message(text, redact.Credentials(as.secrets()...))
	}
	return a, nil
}

func unavailable(ctx context.Context, task Task, host string, err error, as credentials) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	// The outer error repeats method and URL; the inner one has the cause.
	var outer *url.Error
	if errors.As(err, &outer) {
		err = outer.Err
	}
	// The error below contains the local port, which differs at each attempt.
	var op *net.OpError
	if errors.As(err, &op) {
		err = fmt.Errorf("%s: %w", op.Op, op.Err)
	}
	if outer != nil && outer.Timeout() || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = errors.New("the host did not answer in time")
	}
	return &UnavailableError{Task: task, Host: host, Err: redact.Credentials(as.secrets()...).Error(err)}
}

// message extracts the message from a JSON response: {"message": …} or {"error": …}, the latter a text or an object
// with a message, as Bitbucket Cloud has it, or {"errors": [{"message": …}]}, as Data Center does. A message may have
// any type. A host may repeat the token that it received, so it is hidden before the message is truncated.
func message(text []byte, secrets redact.Redactor) string {
	const longest = 200
	var body map[string]any
	if err := json.Unmarshal(text, &body); err != nil {
		return "" // an HTML page
	}
	if list, is := body["errors"].([]any); is && len(list) > 0 && body["message"] == nil {
		body["error"] = list[0]
	}
	m := cmp.Or(body["message"], body["error"])
	if inner, is := m.(map[string]any); is && inner["message"] != nil {
		m = inner["message"]
	}
	if m == nil {
		return ""
	}
	said := secrets.Hide(strings.Join(strings.Fields(fmt.Sprint(m)), " "))
	if len(said) > longest {
		said = strings.ToValidUTF8(said[:longest], "") + "…"
	}
	return said
}

// responseError converts a response into an error, or nil.
func responseError(a answer, r repository, task Task, commit string) error {
	switch {
	case a.code >= 200 && a.code < 300:
		return nil
	case a.code >= 300 && a.code < 400:
		to := "another place"
		if u, err := url.Parse(a.header.Get("Location")); err == nil && u.Host != "" {
			to = u.Host
		}
		return &MovedError{Task: task, Host: r.host, To: to}
	case a.code == http.StatusTooManyRequests, a.code == http.StatusForbidden && limited(a.header):
		return &RateLimitedError{Task: task, Host: r.host, RetryAfter: RetryAfter(a.header)}
	case a.code == http.StatusUnauthorized, a.code == http.StatusForbidden:
		return &UnauthorizedError{Task: task, Host: r.host, Said: a.message}
	case a.code == http.StatusNotFound:
		return &NotFoundError{Task: task, Host: r.host, Repository: r.String(), Commit: commit}
	case a.code >= 500, a.code == http.StatusRequestTimeout:
		return &UnavailableError{Task: task, Host: r.host, Code: a.code}
	}
	return &RejectedError{Task: task, Host: r.host, Code: a.code, Said: a.message}
}

// limited reports whether a 403 is GitHub's form of a 429.
func limited(h http.Header) bool {
	return h.Get("Retry-After") != "" || h.Get("X-RateLimit-Remaining") == "0"
}

// RetryAfter reads Retry-After, in seconds or as a date, or the time at which GitHub's or GitLab's rate limit resets; 0
// if the host sends neither. Dates are compared with the host's own clock.
func RetryAfter(h http.Header) time.Duration {
	now, dated := http.ParseTime(h.Get("Date"))
	if after := h.Get("Retry-After"); after != "" {
		if seconds, err := strconv.Atoi(after); err == nil {
			return max(0, time.Duration(seconds)*time.Second)
		}
		if at, err := http.ParseTime(after); err == nil && dated == nil {
			return max(0, at.Sub(now))
		}
	}
	for _, name := range []string{"X-RateLimit-Reset", "RateLimit-Reset"} {
		if seconds, err := strconv.ParseInt(h.Get(name), 10, 64); err == nil && dated == nil {
			return max(0, time.Unix(seconds, 0).Sub(now))
		}
	}
	return 0
}

// listing is a list on a host, in pages.
type listing[T any] struct {
	// first requests the first page, and read parses one.
	first request
	read  func(body []byte) ([]T, error)
	// next returns the request for the next page; false if there is none. It is nil if one response has everything.
	next func(of request, a answer) (request, bool, error)
}

const (
	// maxListing limits what is kept of a page: GitHub sends about 25 KB for each pull request, plus what its author
	// wrote. maxString limits a string in it, such as a description; a comment on GitHub has up to 65,536 characters of
	// 4 bytes.
	maxListing, maxString = 16 << 20, 256 << 10
	// maxReceived limits what is received of a page: GitLab allows descriptions of 1 MiB.
	maxReceived = 128 << 20
	// maxPages limits the pages that are read of one list.
	maxPages = 20
	// perPage is a page size that every host supports.
	perPage = 50
	// MaxPullRequests is how many open pull requests PullRequests reads at most.
	MaxPullRequests = maxPages * perPage
)

var (
	errNoComment = errors.New("it names no comment")
	errOtherHost = errors.New("its next page is at another place")
	errNoUser    = errors.New("it names no user")
)

// pages reads a list until the last page; more reports whether there are pages that were not read.
func pages[T any](ctx context.Context, p *poster, task Task, l listing[T]) (found []T, more bool, err error) {
	r := l.first
	for range maxPages {
		a, err := p.get(ctx, task, r)
		if err != nil {
			return nil, false, err
		}
		read, err := l.read(a.body)
		if err != nil {
			return nil, false, p.unreadable(task, err)
		}
		found = append(found, read...)
		if l.next == nil {
			return found, false, nil
		}
		next, more, err := l.next(r, a)
		if err != nil {
			return nil, false, p.unreadable(task, err)
		}
		if !more {
			return found, false, nil
		}
		r = next
	}
	return found, true, nil
}

// readAll parses a list and converts its entries.
func readAll[T, As any](as func(T) As) func([]byte) ([]As, error) {
	return func(body []byte) ([]As, error) {
		var all []T
		err := json.Unmarshal(body, &all)
		return each(all, as), err
	}
}

// readValues is like readAll for a list in the field values.
func readValues[T, As any](as func(T) As) func([]byte) ([]As, error) {
	return func(body []byte) ([]As, error) {
		var page struct {
			Values []T `json:"values"`
		}
		err := json.Unmarshal(body, &page)
		return each(page.Values, as), err
	}
}

func each[T, As any](all []T, as func(T) As) []As {
	found := make([]As, 0, len(all))
	for _, one := range all {
		found = append(found, as(one))
	}
	return found
}

// readOne parses and converts one entry.
func readOne[T, As any](as func(T) As) func([]byte) (As, error) {
	return func(body []byte) (As, error) {
		var one T
		err := json.Unmarshal(body, &one)
		return as(one), err
	}
}

// withNumber returns a request with a number in its query, such as that of a page.
func withNumber(r request, name string, number int) request {
	to, err := url.Parse(r.to)
	if err != nil { // it was built from escaped segments
		return r
	}
	query := to.Query()
	query.Set(name, strconv.Itoa(number))
	to.RawQuery = query.Encode()
	r.to = to.String()
	return r
}

// numberIn returns a number in the query of a request.
func numberIn(r request, name string) int {
	to, err := url.Parse(r.to)
	if err != nil {
		return 0
	}
	number, _ := strconv.Atoi(to.Query().Get(name))
	return number
}

// nextByLink continues with the next page number while a header announces a next page.
// https://www.rfc-editor.org/rfc/rfc8288
func nextByLink(of request, a answer) (request, bool, error) {
	more := strings.Contains(strings.Join(a.header.Values("Link"), ","), `rel="next"`)
	return withNumber(of, "page", numberIn(of, "page")+1), more, nil
}

// nextByURL continues at the URL in the body, if that is on the same host, because the token is sent there.
// https://developer.atlassian.com/cloud/bitbucket/rest/intro/#pagination
func nextByURL(of request, a answer) (request, bool, error) {
	var page struct {
		Next string `json:"next"`
	}
	if err := json.Unmarshal(a.body, &page); err != nil || page.Next == "" {
		return request{}, false, err
	}
	from, err := url.Parse(of.to)
	if err != nil {
		return request{}, false, err
	}
	to, err := url.Parse(page.Next)
	if err != nil || to.Scheme != from.Scheme || to.Host != from.Host {
		return request{}, false, errOtherHost
	}
	of.to = page.Next
	return of, true, nil
}

// nextByStart continues at the entry given in the body. https://developer.atlassian.com/server/bitbucket/rest/ (Paged
// APIs)
func nextByStart(of request, a answer) (request, bool, error) {
	var page struct {
		Last bool `json:"isLastPage"`
		Next *int `json:"nextPageStart"`
	}
	if err := json.Unmarshal(a.body, &page); err != nil || page.Last || page.Next == nil {
		return request{}, false, err
	}
	return withNumber(of, "start", *page.Next), true, nil
}

// nextBySkip skips the entries that were read, while pages are full.
// https://learn.microsoft.com/rest/api/azure/devops/git/pull-requests/get-pull-requests
func nextBySkip(of request, a answer) (request, bool, error) {
	var page struct {
		Value []json.RawMessage `json:"value"`
	}
	err := json.Unmarshal(a.body, &page)
	return withNumber(of, "$skip", numberIn(of, "$skip")+len(page.Value)), len(page.Value) >= perPage, err
}

// Task is the purpose of a request; the zero value is to post a commit status.
type Task struct {
	// What describes it, and Right the permission that a token needs for it.
	What, Right string
}

func (t Task) what() string { return cmp.Or(t.What, "post a commit status") }

func (t Task) right() string { return cmp.Or(t.Right, "write commit statuses") }

// RepositoryError reports that a URL is not that of a repository on a host that accepts commit statuses.
type RepositoryError struct {
	URL, Reason string
}

// Error describes what is wrong with the URL.
func (e *RepositoryError) Error() string {
	return fmt.Sprintf("post a commit status for %s: the URL %s: set report.url to the repository's web page", e.URL, e.Reason)
}

// SecretError reports which key of the report's Secret cannot be used.
type SecretError struct {
	Key, Reason string
}

// Error names the key.
func (e *SecretError) Error() string {
	return fmt.Sprintf("the key %s of the report's secret %s", e.Key, e.Reason)
}

// UnauthorizedError reports that the host rejects the token.
type UnauthorizedError struct {
	Task
	Host, Said string
}

// Error says what to check.
func (e *UnauthorizedError) Error() string {
	return fmt.Sprintf("%s on %s: the host refuses the token%s: give one that may %s", e.what(), e.Host, said(e.Said), e.right())
}

// RateLimitedError reports that the host limits the rate of requests.
type RateLimitedError struct {
	Task
	Host string
	// RetryAfter is how long to wait; 0 if the host did not say.
	RetryAfter time.Duration
}

// Error names the host. It omits the wait, which changes at each attempt.
func (e *RateLimitedError) Error() string {
	return fmt.Sprintf("%s on %s: the host limits the rate of requests; plumbline retries later", e.what(), e.Host)
}

// NotFoundError reports that the host has no such repository or commit. Repository is empty if the statuses' URL has
// none.
type NotFoundError struct {
	Task
	Host, Repository, Commit string
}

// Error names both, because hosts do not say which of them is missing.
func (e *NotFoundError) Error() string {
	switch {
	case e.Repository == "":
		return fmt.Sprintf("post a commit status on %s: nothing accepts it there: check report.url", e.Host)
	case e.Commit == "":
		return fmt.Sprintf("%s on %s: no repository %s with that, or hidden from the token: check report.url and the token's rights",
			e.what(), e.Host, e.Repository)
	}
	return fmt.Sprintf("post a commit status on %s: no repository %s with commit %s, or hidden from the token: check report.url and the token's rights", e.Host, e.Repository, e.Commit)
}

// RejectedError reports that the host does not accept the request.
type RejectedError struct {
	Task
	Host string
	Code int
	Said string
}

// Error contains the host's message.
func (e *RejectedError) Error() string {
	return fmt.Sprintf("%s on %s: rejected with code %d%s: check that report.provider is the kind of this host",
		e.what(), e.Host, e.Code, said(e.Said))
}

// MovedError reports a redirect to a host that the token must not be sent to.
type MovedError struct {
	Task
	Host, To string
}

// Error names the other host.
func (e *MovedError) Error() string {
	return fmt.Sprintf("%s on %s: it redirects to %s, where the token is not sent: set report.url to the new place", e.what(), e.Host, e.To)
}

// UnavailableError reports that the host did not answer, or has an internal error.
type UnavailableError struct {
	Task
	Host string
	// Code is the HTTP status; 0 if there was no response.
	Code int
	Err  error
}

// Error describes what happened.
func (e *UnavailableError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s on %s: %v; plumbline retries later", e.what(), e.Host, e.Err)
	}
	return fmt.Sprintf("%s on %s: the host responded with HTTP status %d; plumbline retries later", e.what(), e.Host, e.Code)
}

// Unwrap returns the network's error.
func (e *UnavailableError) Unwrap() error { return e.Err }

func said(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}
