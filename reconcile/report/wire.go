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

// maxAnswer bounds what is read of a host's answer.
const maxAnswer = 8 << 10

// wire sends one request and reads the answer.
type wire struct {
	client *http.Client
}

// request is one of JSON.
type request struct {
	// method is POST where there is none.
	method string
	to     string
	// header is what the host wants beside the credentials. It may be nil.
	header http.Header
	// body is nil where nothing is sent.
	body any
	// task is what it is for, and most how much of the answer is read; 0 for maxAnswer.
	task Task
	most int64
}

// answer is what a host said.
type answer struct {
	code   int
	header http.Header
	body   []byte
	// said is the sentence of a refusal.
	said string
}

// send makes a request. The error is the context's, the credentials' or an
// *UnavailableError.
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
	defer func() { _ = res.Body.Close() }() // read as far as it is wanted
	text, err := io.ReadAll(io.LimitReader(res.Body, cmp.Or(r.most, maxAnswer)))
	if err != nil {
		return answer{}, unavailable(ctx, r.task, req.URL.Host, err, as)
	}
	a := answer{code: res.StatusCode, header: res.Header, body: text}
	if a.code >= http.StatusMultipleChoices {
		a.said = message(text, redact.Credentials(as.secrets()...))
	}
	return a, nil
}

func unavailable(ctx context.Context, task Task, host string, err error, as credentials) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	// The outer error repeats method and URL; the inner one says what happened.
	var outer *url.Error
	if errors.As(err, &outer) {
		err = outer.Err
	}
	// What is below names the port from which the host was asked, a new one at
	// each try.
	var op *net.OpError
	if errors.As(err, &op) {
		err = fmt.Errorf("%s: %w", op.Op, op.Err)
	}
	if outer != nil && outer.Timeout() || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = errors.New("the host did not answer in time")
	}
	return &UnavailableError{Task: task, Host: host, Err: redact.Credentials(as.secrets()...).Error(err)}
}

// message takes the sentence out of an answer in JSON: {"message": …} or {"error": …}, the
// latter a text or an object with a message, as Bitbucket Cloud has it, or {"errors":
// [{"message": …}]}, as Data Center does. A message may be anything. A host may repeat the
// token that it was sent, which is hidden before the sentence is cut.
func message(text []byte, secrets redact.Redactor) string {
	const longest = 200
	var body map[string]any
	if err := json.Unmarshal(text, &body); err != nil {
		return "" // a page for people
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

// judge turns an answer into an error, or nil.
func judge(a answer, r repository, task Task, commit string) error {
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
		return &UnauthorizedError{Task: task, Host: r.host, Said: a.said}
	case a.code == http.StatusNotFound:
		return &NotFoundError{Task: task, Host: r.host, Repository: r.String(), Commit: commit}
	case a.code >= 500, a.code == http.StatusRequestTimeout:
		return &UnavailableError{Task: task, Host: r.host, Code: a.code}
	}
	return &RejectedError{Task: task, Host: r.host, Code: a.code, Said: a.said}
}

// limited is whether a 403 is GitHub's way to say 429.
func limited(h http.Header) bool {
	return h.Get("Retry-After") != "" || h.Get("X-RateLimit-Remaining") == "0"
}

// RetryAfter reads Retry-After, in seconds or as a date, or the time at which
// GitHub or GitLab count again; 0 where a host says neither. Dates are taken against the host's own clock.
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
