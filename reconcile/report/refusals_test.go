package report_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/report"
)

func as[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}

// refusal is an error response, and the expected error.
type refusal struct {
	code   int
	header http.Header
	is     func(error) bool
	// words is whether the error contains the host's message.
	words bool
}

func limited(want time.Duration) func(error) bool {
	return func(err error) bool {
		var e *report.RateLimitedError
		return errors.As(err, &e) && e.RetryAfter == want
	}
}

func away(code int) func(error) bool {
	return func(err error) bool {
		var e *report.UnavailableError
		return errors.As(err, &e) && e.Code == code
	}
}

func rejected(code int) func(error) bool {
	return func(err error) bool {
		var e *report.RejectedError
		return errors.As(err, &e) && e.Code == code
	}
}

func refusals() map[string]refusal {
	date := "Sat, 21 Nov 2026 08:00:00 GMT"
	return map[string]refusal{
		"401":             {code: 401, is: as[*report.UnauthorizedError], words: true},
		"403":             {code: 403, is: as[*report.UnauthorizedError], words: true},
		"403 with a wait": {code: 403, header: http.Header{"Retry-After": {"30"}}, is: limited(30 * time.Second)},
		"403 with a limit": {
			code: 403, header: http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"1795248090"}, "Date": {date}}, is: limited(90 * time.Second),
		},
		"429":             {code: 429, is: limited(0)},
		"429 in seconds":  {code: 429, header: http.Header{"Retry-After": {"30"}}, is: limited(30 * time.Second)},
		"429 with a date": {code: 429, header: http.Header{"Retry-After": {"Sat, 21 Nov 2026 08:01:00 GMT"}, "Date": {date}}, is: limited(time.Minute)},
		"404":             {code: 404, is: as[*report.NotFoundError]},
		"400":             {code: 400, is: rejected(400), words: true},
		"409":             {code: 409, is: rejected(409), words: true},
		"422":             {code: 422, is: rejected(422), words: true},
		"408":             {code: 408, is: away(408)},
		"500":             {code: 500, is: away(500)},
		"502":             {code: 502, is: away(502)},
		"503":             {code: 503, is: away(503)},
		"504":             {code: 504, is: away(504)},
	}
}

// TestWhatEveryHostRefuses: each response becomes an error that the queue knows, with the host's message but without
// the token, which the host repeats.
func TestWhatEveryHostRefuses(t *testing.T) {
	eachDialect(t, func(t *testing.T, d dialect) {
		for name, c := range refusals() {
			sent := hosts(t, func(w http.ResponseWriter, r *http.Request) {
				for k, v := range c.header {
					w.Header()[k] = v
				}
				w.WriteHeader(c.code)
				said, _ := json.Marshal(fmt.Sprintf("thus it says %s %s: %s", token, r.Header.Get("Authorization"), d.secret["githubAppPrivateKey"]))
				_, _ = io.WriteString(w, strings.ReplaceAll(d.refusal, "$said", strings.Trim(string(said), `"`)))
			})
			err := d.poster(t, nil).Post(t.Context(), status)
			if err == nil || !c.is(err) || len(*sent) != 1 {
				t.Errorf("%s: unexpected error %T: %v, after %d requests", name, err, err, len(*sent))
				continue
			}
			if c.words && !strings.Contains(err.Error(), ": thus it says") {
				t.Errorf("%s: %q has not the host's words", name, err)
			}
			noSecret(t, d, err)
		}
	})
}

// noSecret verifies that an error contains nothing from the Secret or derived from it.
func noSecret(t *testing.T, d dialect, err error) {
	t.Helper()
	secrets := []string{strings.TrimPrefix(d.proof[1], "Basic "), installationToken, strings.TrimPrefix(d.proof[1], "Bearer ")}
	if d.provider != "github" || d.secret["token"] != "" {
		secrets = append(secrets, token)
	}
	for line := range strings.Lines(d.secret["githubAppPrivateKey"]) {
		secrets = append(secrets, strings.TrimSpace(line))
	}
	for _, secret := range secrets {
		if secret != "" && strings.Contains(err.Error(), secret) {
			t.Errorf("the error repeats a secret: %v", err)
		}
	}
}

// TestWhatOneHostMeans covers responses with a special meaning on one host.
func TestWhatOneHostMeans(t *testing.T) {
	busy := `Cannot transition status via :run from :running (Reason(s): Status cannot transition via \"run\")`
	cases := map[string]struct {
		host     string
		state    report.State
		code     int
		location string
		said     string
		is       func(error) bool
	}{
		"GitHub does not know the commit":  {"github", report.Success, 422, "", "No commit found for SHA: c", as[*report.NotFoundError]},
		"GitLab has that state already":    {"gitlab", report.Pending, 400, "", busy, func(err error) bool { return err == nil }},
		"GitLab has another one":           {"gitlab", report.Success, 400, "", busy, rejected(400)},
		"Azure has the user sign in":       {"azure devops", report.Success, 203, "", "", as[*report.UnauthorizedError]},
		"Azure sends the user to sign in":  {"azure devops", report.Success, 302, "http://spsprodweu1.vssps.example.com/_signin?realm=dev.azure.com", "", as[*report.UnauthorizedError]},
		"Azure has moved the organization": {"azure devops", report.Success, 302, "http://other.example.com/acme", "", as[*report.MovedError]},
		"a webhook that is not there": {"generic", report.Success, 404, "", "", func(err error) bool {
			return as[*report.NotFoundError](err) && strings.Contains(err.Error(), "nothing accepts it there")
		}},
		"a webhook that has nothing to say":    {"generic", report.Success, 204, "", "", func(err error) bool { return err == nil }},
		"a webhook that answers with a number": {"generic", report.Success, 400, "", "7", rejected(400)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := dialects()[c.host]
			hosts(t, func(w http.ResponseWriter, _ *http.Request) {
				if c.location != "" {
					w.Header().Set("Location", c.location)
				}
				w.WriteHeader(c.code)
				if c.code != http.StatusNoContent {
					_, _ = io.WriteString(w, strings.ReplaceAll(d.refusal, "$said", c.said))
				}
			})
			s := status
			s.State = c.state
			if err := d.poster(t, nil).Post(t.Context(), s); !c.is(err) {
				t.Errorf("unexpected error %T: %v", err, err)
			}
		})
	}
}
