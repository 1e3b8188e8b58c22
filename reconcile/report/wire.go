package report

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	token  string
}

// answer is what a host said.
type answer struct {
	code   int
	header http.Header
	said   string
}

// post sends body as JSON. The error is the context's or an *UnavailableError.
func (w wire) post(ctx context.Context, to string, header http.Header, body any) (answer, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return answer{}, fmt.Errorf("write the commit status: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(data))
	if err != nil {
		return answer{}, fmt.Errorf("write the commit status: %w", err)
	}
	req.Header = header
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "plumbline")
	res, err := w.client.Do(req)
	if err != nil {
		return answer{}, w.unavailable(ctx, req.URL.Host, err)
	}
	defer func() { _ = res.Body.Close() }() // read as far as it is wanted
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return answer{}, w.unavailable(ctx, req.URL.Host, err)
	}
	return answer{code: res.StatusCode, header: res.Header, said: message(text, redact.Credentials(w.token))}, nil
}

func (w wire) unavailable(ctx context.Context, host string, err error) error {
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
	return &UnavailableError{Host: host, Err: redact.Credentials(w.token).Error(err)}
}

// message takes the sentence out of an answer in JSON: {"message": …} or
// {"error": …}, the former a text or anything else. A host may repeat the token that it was
// sent, which is hidden before the sentence is cut.
func message(text []byte, token redact.Redactor) string {
	const longest = 200
	var body struct {
		Message any    `json:"message"`
		Error   string `json:"error"`
	}
	if err := json.Unmarshal(text, &body); err != nil {
		return "" // a page for people
	}
	m := body.Error
	if body.Message != nil {
		m = fmt.Sprint(body.Message)
	}
	m = token.Hide(strings.Join(strings.Fields(m), " "))
	if len(m) > longest {
		m = strings.ToValidUTF8(m[:longest], "") + "…"
	}
	return m
}

// judge turns an answer into an error, or nil.
func judge(a answer, r repository, s Status) error {
	switch {
	case a.code >= 200 && a.code < 300:
		return nil
	case a.code >= 300 && a.code < 400:
		to := "another place"
		if u, err := url.Parse(a.header.Get("Location")); err == nil && u.Host != "" {
			to = u.Host
		}
		return &MovedError{Host: r.host, To: to}
	case a.code == http.StatusTooManyRequests, a.code == http.StatusForbidden && limited(a.header):
		return &RateLimitedError{Host: r.host, RetryAfter: retryAfter(a.header)}
	case a.code == http.StatusUnauthorized, a.code == http.StatusForbidden:
		return &UnauthorizedError{Host: r.host, Said: a.said}
	case a.code == http.StatusNotFound:
		return &NotFoundError{Host: r.host, Repository: r.String(), Commit: s.Commit}
	case a.code >= 500, a.code == http.StatusRequestTimeout:
		return &UnavailableError{Host: r.host, Code: a.code}
	}
	return &RejectedError{Host: r.host, Code: a.code, Said: a.said}
}

// limited is whether a 403 is GitHub's way to say 429.
func limited(h http.Header) bool {
	return h.Get("Retry-After") != "" || h.Get("X-RateLimit-Remaining") == "0"
}

// retryAfter reads Retry-After, in seconds or as a date, or the time at which
// GitHub or GitLab count again. Dates are taken against the host's own clock.
func retryAfter(h http.Header) time.Duration {
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
