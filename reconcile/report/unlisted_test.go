package report_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/report"
)

// TestAHostRefusesToList: each response becomes its own error, which names the task.
func TestAHostRefusesToList(t *testing.T) {
	cases := map[string]struct {
		code   int
		header string
		is     func(error) bool
	}{
		"401":              {http.StatusUnauthorized, "", as[*report.UnauthorizedError]},
		"403":              {http.StatusForbidden, "", as[*report.UnauthorizedError]},
		"403 with a limit": {http.StatusForbidden, "60", as[*report.RateLimitedError]},
		"404":              {http.StatusNotFound, "", as[*report.NotFoundError]},
		"422":              {http.StatusUnprocessableEntity, "", as[*report.RejectedError]},
		"429":              {http.StatusTooManyRequests, "60", as[*report.RateLimitedError]},
		"500":              {http.StatusInternalServerError, "", as[*report.UnavailableError]},
		"503":              {http.StatusServiceUnavailable, "", as[*report.UnavailableError]},
		"no JSON":          {http.StatusOK, "", as[*report.UnavailableError]},
	}
	eachForge(t, func(t *testing.T, d dialect, _ forge) {
		tasks := map[string]func(context.Context, report.Reviewer) error{
			"list the open pull requests on ": func(ctx context.Context, r report.Reviewer) error {
				_, _, err := r.PullRequests(ctx, "main")
				return err
			},
			"look up the token's own user, to know its comments on ": func(ctx context.Context, r report.Reviewer) error {
				_, err := r.OwnComments(ctx, 7)
				return err
			},
			"comment on a pull request on ": func(ctx context.Context, r report.Reviewer) error {
				_, err := r.Comment(ctx, 7, report.Comment{}, "text")
				return err
			},
		}
		for what, ask := range tasks {
			for name, c := range cases {
				hosts(t, func(w http.ResponseWriter, _ *http.Request) {
					if c.header != "" {
						w.Header().Set("Retry-After", c.header)
					}
					w.WriteHeader(c.code)
					_, _ = fmt.Fprint(w, "<html>")
				})
				err := ask(t.Context(), d.reviewer(t, newHosts()))
				if !c.is(err) || !strings.HasPrefix(err.Error(), what) || strings.Contains(err.Error(), token) {
					t.Errorf("%s, %s: %T: %v", what, name, err, err)
				}
			}
			hosts(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			if err := ask(ctx, d.reviewer(t, newHosts())); !as[*report.UnavailableError](err) || !strings.Contains(err.Error(), "did not answer in time") {
				t.Errorf("%s, a host that hangs: %v", what, err)
			}
			cancel()
		}
	})
}

// TestAzureHasTheUserSignIn: a rejected token leads to other codes, for pull requests too.
func TestAzureHasTheUserSignIn(t *testing.T) {
	d := dialects()["azure devops"]
	for code, location := range map[int]string{http.StatusNonAuthoritativeInfo: "", http.StatusFound: "http://spsprodweu1.vssps.example.com/_signin?realm=dev.azure.com"} {
		hosts(t, func(w http.ResponseWriter, _ *http.Request) {
			if location != "" {
				w.Header().Set("Location", location)
			}
			w.WriteHeader(code)
			_, _ = fmt.Fprint(w, "<html>")
		})
		r := d.reviewer(t, newHosts())
		_, _, err := r.PullRequests(t.Context(), "main")
		if !as[*report.UnauthorizedError](err) {
			t.Errorf("a list, %d: %v", code, err)
		}
		if _, err := r.Comment(t.Context(), 7, report.Comment{}, "text"); !as[*report.UnauthorizedError](err) {
			t.Errorf("a comment, %d: %v", code, err)
		}
	}
}

// TestHeadsThatAreCutShort: a missing head is omitted, and a mismatch is an error.
func TestHeadsThatAreCutShort(t *testing.T) {
	d, f := dialects()["bitbucket"], bitbucketForge()
	for name, c := range map[string]struct {
		code   int
		answer string
		listed int
		is     func(error) bool
	}{
		"gone":           {http.StatusNotFound, `{}`, 0, func(err error) bool { return err == nil }},
		"another commit": {http.StatusOK, `{"hash": "` + headOf(8) + `"}`, 0, as[*report.UnavailableError]},
		"cut, too":       {http.StatusOK, `{"hash": "000000000009"}`, 0, as[*report.UnavailableError]},
		"limited":        {http.StatusTooManyRequests, `{}`, 0, as[*report.RateLimitedError]},
		"the same":       {http.StatusOK, `{"hash": "` + headOf(9) + `"}`, 1, func(err error) bool { return err == nil }},
	} {
		hosts(t, func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/commit/") {
				w.WriteHeader(c.code)
				_, _ = fmt.Fprint(w, c.answer)
				return
			}
			f.page.serve(w, r, []string{f.pull(9, "main", own)})
		})
		if open, _, err := d.reviewer(t, newHosts()).PullRequests(t.Context(), "main"); !c.is(err) || len(open) != c.listed {
			t.Errorf("%s: %v, error %v", name, open, err)
		}
	}
}

// TestTheGenericHostHasNoReviewer shows that every other host has one.
func TestTheGenericHostHasNoReviewer(t *testing.T) {
	for name, d := range dialects() {
		secret := map[string][]byte{}
		for key, value := range d.secret {
			secret[key] = []byte(value)
		}
		_, err := newHosts().Reviewer(d.provider, d.repository, secret, false)
		if is := as[*report.RepositoryError](err); is != (d.provider == "generic") || err == nil && report.MarkupOf(d.provider).Most == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
