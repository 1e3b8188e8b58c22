package report_test

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/report"
)

const token = "t0ken-of-the-host"

// request is what a host was sent.
type request struct {
	Method, Path, Auth, Type string
	Body                     map[string]string
}

// record answers with a code and keeps what it was sent.
func record(t *testing.T, code int, header http.Header, answer string) (*httptest.Server, *[]request) {
	t.Helper()
	sent := &[]request{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got := request{Method: r.Method, Path: r.URL.EscapedPath(), Auth: r.Header.Get("Authorization") + r.Header.Get("Private-Token"), Type: r.Header.Get("Content-Type")}
		if err := json.Unmarshal(data, &got.Body); err != nil {
			t.Errorf("body %q: %v", data, err)
		}
		*sent = append(*sent, got)
		for k, v := range header {
			w.Header()[k] = v
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	return s, sent
}

func host(t *testing.T, provider, repository string) report.Poster {
	t.Helper()
	p, err := report.Hosts{}.Host(provider, repository, map[string][]byte{"token": []byte(token + "\n")})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var status = report.Status{
	Commit: strings.Repeat("c", 40), Context: "plumbline/prod/nodes", State: report.Failure,
	Description: "Held: pools a, b", TargetURL: "https://example.com/x",
}

func TestPost(t *testing.T) {
	commit := status.Commit
	like := func(state string) map[string]string {
		return map[string]string{"state": state, "context": status.Context, "description": status.Description, "target_url": status.TargetURL}
	}
	named := map[string]string{"state": "failed", "name": status.Context, "description": status.Description, "target_url": status.TargetURL}
	cases := map[string]struct {
		provider, path string
		want           request
	}{
		"gitea": {"gitea", "/acme/fleet.git", request{
			"POST", "/api/v1/repos/acme/fleet/statuses/" + commit, "token " + token, "application/json", like("failure"),
		}},
		"gitea below a folder": {"gitea", "/git/acme/fleet/", request{
			"POST", "/git/api/v1/repos/acme/fleet/statuses/" + commit, "token " + token, "application/json", like("failure"),
		}},
		"github enterprise": {"github", "/acme/fleet", request{
			"POST", "/api/v3/repos/acme/fleet/statuses/" + commit, "Bearer " + token, "application/json", like("failure"),
		}},
		"gitlab": {"gitlab", "/acme/infra/eu/fleet.git", request{
			"POST", "/api/v4/projects/acme%2Finfra%2Feu%2Ffleet/statuses/" + commit, token, "application/json", named,
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			server, sent := record(t, http.StatusCreated, nil, `{"id": 1}`)
			if err := host(t, c.provider, strings.Replace(server.URL, "://", "://u:p@", 1)+c.path).Post(t.Context(), status); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]request{c.want}, *sent); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPostInTheHostsWords(t *testing.T) {
	cases := map[string]map[report.State]string{
		"gitea":  {report.Pending: "pending", report.Success: "success", report.Failure: "failure"},
		"github": {report.Pending: "pending", report.Success: "success", report.Failure: "failure"},
		"gitlab": {report.Pending: "running", report.Success: "success", report.Failure: "failed"},
	}
	for provider, states := range cases {
		for state, want := range states {
			server, sent := record(t, http.StatusCreated, nil, "")
			s := status
			s.State = state
			if err := host(t, provider, server.URL+"/acme/fleet").Post(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			if got := (*sent)[0].Body["state"]; got != want {
				t.Errorf("%s: %s is posted as %s, want %s", provider, state, got, want)
			}
		}
	}
}

func TestPostErrors(t *testing.T) {
	date := "Sat, 21 Nov 2026 08:00:00 GMT"
	at := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	limited := func(want time.Duration) func(error) bool {
		return func(err error) bool {
			var e *report.RateLimitedError
			return errors.As(err, &e) && e.RetryAfter == want
		}
	}
	cases := map[string]struct {
		code   int
		header http.Header
		answer string
		is     func(error) bool
		says   string
	}{
		"401": {code: 401, answer: `{"message": "bad token ` + token + `"}`, is: as[*report.UnauthorizedError], says: "bad token ***"},
		"403": {code: 403, is: as[*report.UnauthorizedError]},
		"403 with a limit": {
			code: 403, header: http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"1795248090"}, "Date": {date}},
			is: limited(time.Unix(1795248090, 0).Sub(at)),
		},
		"429 in seconds":  {code: 429, header: http.Header{"Retry-After": {"30"}}, is: limited(30 * time.Second)},
		"429 with a date": {code: 429, header: http.Header{"Retry-After": {"Sat, 21 Nov 2026 08:01:00 GMT"}, "Date": {date}}, is: limited(time.Minute)},
		"429":             {code: 429, is: limited(0)},
		"404":             {code: 404, is: as[*report.NotFoundError], says: "acme/fleet"},
		"422":             {code: 422, answer: `{"message": "Validation Failed"}`, is: as[*report.RejectedError], says: "Validation Failed"},
		"422 of a commit": {code: 422, answer: `{"message": "No commit found for SHA: c"}`, is: as[*report.NotFoundError], says: status.Commit},
		"400":             {code: 400, answer: `{"message": {"base": ["x"]}}`, is: as[*report.RejectedError]},
		"503":             {code: 503, is: as[*report.UnavailableError]},
		"moved":           {code: 302, header: http.Header{"Location": {"https://other.example.com/"}}, is: as[*report.MovedError], says: "other.example.com"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			server, _ := record(t, c.code, c.header, c.answer)
			err := host(t, "github", server.URL+"/acme/fleet").Post(t.Context(), status)
			if err == nil || !c.is(err) {
				t.Fatalf("unexpected error %T: %v", err, err)
			}
			if !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), token) {
				t.Errorf("the message %q should say %q, without the token", err, c.says)
			}
		})
	}
}

func as[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}

func TestGitLabTakesTheSameStateTwice(t *testing.T) {
	const refusal = `{"message": "Cannot transition status via :run from :running (Reason(s): Status cannot transition via \"run\")"}`
	server, _ := record(t, http.StatusBadRequest, nil, refusal)
	poster := host(t, "gitlab", server.URL+"/acme/fleet")
	s := status
	s.State = report.Pending
	if err := poster.Post(t.Context(), s); err != nil {
		t.Errorf("running after running: %v", err)
	}
	if err := poster.Post(t.Context(), status); !as[*report.RejectedError](err) {
		t.Errorf("failed after running: error %v, want a RejectedError", err)
	}
}

func TestPostDoesNotCarryTheTokenAway(t *testing.T) {
	for _, code := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		elsewhere, sent := record(t, http.StatusCreated, nil, "")
		server, _ := record(t, code, http.Header{"Location": {elsewhere.URL + "/x"}}, "")
		err := host(t, "gitea", server.URL+"/acme/fleet").Post(t.Context(), status)
		if !as[*report.MovedError](err) || len(*sent) != 0 {
			t.Errorf("code %d: error %v, %d requests elsewhere", code, err, len(*sent))
		}
	}
}

func TestPostFollowsARenamedRepository(t *testing.T) {
	var bodies []string
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/v3/repos/acme/fleet/statuses/{sha}", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/api/v3/repositories/7/statuses/"+r.PathValue("sha"), http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("POST /api/v3/repositories/7/statuses/{sha}", func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		bodies = append(bodies, r.Header.Get("Authorization")+" "+string(data))
		w.WriteHeader(http.StatusCreated)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	if err := host(t, "github", server.URL+"/acme/fleet").Post(t.Context(), status); err != nil {
		t.Fatal(err)
	}
	if len(bodies) != 1 || !strings.HasPrefix(bodies[0], "Bearer "+token+" {") {
		t.Errorf("the renamed repository got %q", bodies)
	}
}

func TestPostToAHostThatIsDown(t *testing.T) {
	server, _ := record(t, http.StatusCreated, nil, "")
	poster := host(t, "gitea", server.URL+"/acme/fleet")
	server.Close()
	if err := poster.Post(t.Context(), status); !as[*report.UnavailableError](err) {
		t.Errorf("error %v, want an UnavailableError", err)
	}
}

func TestPostTrustsTheSecretsAuthority(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusCreated) }))
	t.Cleanup(server.Close)
	to, repository := "gitea", server.URL+"/acme/fleet"
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	poster, err := report.Hosts{}.Host(to, repository, map[string][]byte{"token": []byte(token), "ca.crt": ca})
	if err != nil {
		t.Fatal(err)
	}
	if err := poster.Post(t.Context(), status); err != nil {
		t.Errorf("with the authority: %v", err)
	}
	if err := host(t, "gitea", repository).Post(t.Context(), status); !as[*report.UnavailableError](err) {
		t.Errorf("without it: error %v, want an UnavailableError", err)
	}
}

func TestHostRefuses(t *testing.T) {
	secret := map[string][]byte{"token": []byte(token)}
	cases := map[string]struct {
		provider, url string
		secret        map[string][]byte
		is            func(error) bool
	}{
		"ssh":           {"gitea", "ssh://git@example.com/acme/fleet.git", secret, as[*report.RepositoryError]},
		"no owner":      {"gitea", "https://example.com/fleet", secret, as[*report.RepositoryError]},
		"no path":       {"gitea", "https://example.com", secret, as[*report.RepositoryError]},
		"dots":          {"gitea", "https://example.com/acme/../fleet", secret, as[*report.RepositoryError]},
		"no URL":        {"gitea", "https://%zz:" + token + "@x", secret, as[*report.RepositoryError]},
		"other kind":    {"sourcehut", "https://example.com/acme/fleet", secret, as[*report.RepositoryError]},
		"no token":      {"gitea", "https://example.com/acme/fleet", nil, as[*report.SecretError]},
		"broken ca.crt": {"gitea", "https://example.com/acme/fleet", map[string][]byte{"token": []byte(token), "ca.crt": []byte("x")}, as[*report.SecretError]},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := report.Hosts{}.Host(c.provider, c.url, c.secret)
			if err == nil || !c.is(err) || strings.Contains(err.Error(), token) {
				t.Fatalf("unexpected error %T: %v", err, err)
			}
		})
	}
}
