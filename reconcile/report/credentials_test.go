package report_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/report"
)

// octocat is GitHub with one app, whose tokens expire after an hour.
type octocat struct {
	t   *testing.T
	now time.Time
	// made counts tokens, and valid is the accepted one.
	made  int
	valid string
	// refuse responds to a request for a token; if nil, one is issued.
	refuse func(http.ResponseWriter, *http.Request)
	// posted are the tokens of posted statuses.
	posted []string
	hosts  *report.Hosts
}

func newOctocat(t *testing.T) *octocat {
	t.Helper()
	o := &octocat{t: t, now: time.Date(2026, 11, 24, 8, 0, 0, 0, time.UTC)}
	o.hosts = &report.Hosts{Now: func() time.Time { return o.now }}
	internet.mu.Lock()
	defer internet.mu.Unlock()
	internet.answer = http.HandlerFunc(o.answer)
	return o
}

func (o *octocat) answer(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/access_tokens") {
		given := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		o.posted = append(o.posted, given)
		if given != o.valid {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusCreated)
		return
	}
	o.checkProof(r)
	if o.refuse != nil {
		o.refuse(w, r)
		return
	}
	o.made++
	o.valid = fmt.Sprintf("ghs_t0ken-number-%d", o.made)
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(w, `{"token": %q, "expires_at": %q, "permissions": {"statuses": "write"}, "repository_selection": "all"}`,
		o.valid, o.now.Add(time.Hour).Format(time.RFC3339))
}

// checkProof verifies the request as GitHub documents it: RS256, issued in the past, for at most ten minutes, and with
// only the required permissions.
func (o *octocat) checkProof(r *http.Request) {
	if want := "api.github.com/app/installations/7/access_tokens"; r.Host+r.URL.Path != want || r.Method != http.MethodPost {
		o.t.Errorf("a token is asked for by %s at %s%s, want POST %s", r.Method, r.Host, r.URL.Path, want)
	}
	claims := &jwt.RegisteredClaims{}
	_, err := jwt.ParseWithClaims(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), claims,
		func(*jwt.Token) (any, error) { return &privateKey().PublicKey, nil },
		jwt.WithValidMethods([]string{"RS256"}), jwt.WithIssuer("12"), jwt.WithIssuedAt(), jwt.WithExpirationRequired(),
		jwt.WithTimeFunc(func() time.Time { return o.now.Add(-30 * time.Second) })) // GitHub's clock is slow
	if err != nil {
		o.t.Errorf("the app's proof: %v", err)
		return
	}
	if most := o.now.Add(10*time.Minute - 30*time.Second); claims.ExpiresAt.After(most) {
		o.t.Errorf("the proof holds until %s, more than ten minutes", claims.ExpiresAt)
	}
	var body any
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		o.t.Error(err)
	}
	if diff := cmp.Diff(map[string]any{"permissions": map[string]any{"statuses": "write"}}, body); diff != "" {
		o.t.Errorf("what is asked for (-want +got):\n%s", diff)
	}
}

// post posts a status as the deliverer does: with a new client.
func (o *octocat) post(repository string, secret map[string]string) error {
	o.t.Helper()
	values := map[string][]byte{}
	for key, value := range secret {
		values[key] = []byte(value)
	}
	p, err := o.hosts.Host("github", repository, values)
	if err != nil {
		o.t.Fatal(err)
	}
	return p.Post(o.t.Context(), status)
}

const fleet = "http://github.com/acme/fleet"

// TestATokenOfAnAppIsKept until shortly before it expires, for all repositories of the installation, and only for those
// with the key.
func TestATokenOfAnAppIsKept(t *testing.T) {
	o := newOctocat(t)
	for _, step := range []struct {
		after      time.Duration
		repository string
		made       int
	}{
		{0, fleet, 1}, {0, "http://github.com/acme/other", 1}, {54 * time.Minute, fleet, 1}, {2 * time.Minute, fleet, 2}, {time.Hour, fleet, 3},
	} {
		o.now = o.now.Add(step.after)
		if err := o.post(step.repository, appSecret()); err != nil {
			t.Fatal(err)
		}
		if o.made != step.made {
			t.Errorf("after %s: %d tokens made, want %d", step.after, o.made, step.made)
		}
	}
	other := appSecret()
	other["githubAppPrivateKey"] += "\n# written another way"
	if err := o.post(fleet, other); err != nil {
		t.Fatal(err)
	}
	if o.made != 4 {
		t.Error("a Secret with another key gets a token that was kept")
	}
}

// TestATokenThatWasTakenBackIsReplaced shows that a revoked token is replaced once, and a rejected new one is not.
func TestATokenThatWasTakenBackIsReplaced(t *testing.T) {
	o := newOctocat(t)
	if err := o.post(fleet, appSecret()); err != nil {
		t.Fatal(err)
	}
	o.valid = "revoked"
	if err := o.post(fleet, appSecret()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"ghs_t0ken-number-1", "ghs_t0ken-number-1", "ghs_t0ken-number-2"}, o.posted); diff != "" {
		t.Errorf("statuses came with (-want +got):\n%s", diff)
	}
	d := dialects()["github app"]
	sent := hosts(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	if err := d.poster(t, nil).Post(t.Context(), status); !as[*report.UnauthorizedError](err) || len(*sent) != 1 {
		t.Errorf("a new token that is refused: %v, %d requests", err, len(*sent))
	}
}

// TestAnAppThatGetsNoToken shows that each response becomes an error that the queue knows.
func TestAnAppThatGetsNoToken(t *testing.T) {
	cases := map[string]struct {
		code   int
		header http.Header
		answer string
		is     func(error) bool
		says   string
	}{
		"another key":       {401, nil, `{"message": "A JSON web token could not be decoded"}`, as[*report.UnauthorizedError], "asked as app 12 for installation 7: A JSON web token could not be decoded"},
		"no installation":   {404, nil, `{"message": "Not Found"}`, as[*report.UnauthorizedError], "installation 7: Not Found"},
		"no right":          {422, nil, `{"message": "The permissions requested are not granted to this installation."}`, as[*report.UnauthorizedError], "not granted"},
		"suspended":         {403, nil, `{"message": "This installation has been suspended"}`, as[*report.UnauthorizedError], "suspended"},
		"limited":           {403, http.Header{"Retry-After": {"60"}}, `{}`, limited(time.Minute), ""},
		"away":              {502, nil, `<html>`, away(502), ""},
		"moved":             {302, http.Header{"Location": {"http://elsewhere.example.com/"}}, ``, as[*report.MovedError], ""},
		"no token in it":    {201, nil, `{"expires_at": "2026-11-24T09:00:00Z"}`, as[*report.UnavailableError], "no token"},
		"no JSON":           {201, nil, `ghs_t0ken`, as[*report.UnavailableError], "no token"},
		"repeats the proof": {401, nil, "$proof", as[*report.UnauthorizedError], "***"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := newOctocat(t)
			var proof string
			o.refuse = func(w http.ResponseWriter, r *http.Request) {
				proof = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
				for k, v := range c.header {
					w.Header()[k] = v
				}
				w.WriteHeader(c.code)
				_, _ = io.WriteString(w, strings.ReplaceAll(c.answer, "$proof", `{"message": "bad `+proof+`"}`))
			}
			err := o.post(fleet, appSecret())
			if err == nil || !c.is(err) || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("unexpected error %T: %v", err, err)
			}
			if strings.Contains(err.Error(), proof) {
				t.Errorf("the error repeats the proof: %v", err)
			}
			noSecret(t, dialects()["github app"], err)
			if len(o.posted) != 0 {
				t.Errorf("a status was posted with %v", o.posted)
			}
		})
	}
}
