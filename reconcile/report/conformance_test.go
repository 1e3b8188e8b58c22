package report_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/report"
)

// TestEveryHostTakesAStatus shows that the request is exactly the documented one, in each state.
func TestEveryHostTakesAStatus(t *testing.T) {
	eachDialect(t, func(t *testing.T, d dialect) {
		for i, state := range []report.State{report.Pending, report.Success, report.Failure} {
			sent := hosts(t, d.takes)
			s := status
			s.State = state
			if err := d.poster(t, nil).Post(t.Context(), s); err != nil {
				t.Fatalf("%s: %v", state, err)
			}
			if len(*sent) != 1 {
				t.Fatalf("%s: %d requests", state, len(*sent))
			}
			got := (*sent)[0]
			want := maps.Clone(d.body)
			want["state"] = d.states[i]
			if diff := cmp.Diff(want, got.Body); diff != "" {
				t.Errorf("body of %s (-want +got):\n%s", state, diff)
			}
			if got.Method != http.MethodPost || got.URL != d.url || got.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s %s, %s, want POST %s", got.Method, got.URL, got.Header.Get("Content-Type"), d.url)
			}
			if proof := got.Header.Get(d.proof[0]); proof != d.expects(got) {
				t.Errorf("%s: %q, want %q", d.proof[0], proof, d.expects(got))
			}
		}
	})
}

// expects is the value of the header that authenticates the request.
func (d dialect) expects(c call) string {
	if d.proof[1] != "" {
		return d.proof[1]
	}
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write(c.Raw)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// TestTheKeyIsStable shows that a status replaces only the earlier one in the same context, however long contexts are.
func TestTheKeyIsStable(t *testing.T) {
	long := "plumbline/" + strings.Repeat("a", 90) + "/" + strings.Repeat("b", 240)
	contexts := []string{"plumbline/prod/nodes", "plumbline/prod/nodes/applied", long, long + "/applied", long + "/drift"}
	eachDialect(t, func(t *testing.T, d dialect) {
		of := map[string]string{}
		for _, name := range contexts {
			for _, state := range []report.State{report.Pending, report.Success, report.Success} {
				sent := hosts(t, d.takes)
				s := status
				s.Context, s.State = name, state
				if err := d.poster(t, nil).Post(t.Context(), s); err != nil {
					t.Fatal(err)
				}
				key := d.key((*sent)[0].Body)
				if before, known := of[key]; known && before != name {
					t.Errorf("contexts %s and %s have one key, %s", before, name, key)
				}
				of[key] = name
				if n := utf8.RuneCountInString(key); n > d.longest {
					t.Errorf("the key %s has %d characters, the host takes %d", key, n, d.longest)
				}
			}
		}
		if len(of) != len(contexts) {
			t.Errorf("%d keys for %d contexts: %v", len(of), len(contexts), of)
		}
	})
}

// TestDescriptionsFit shows that every host gets one line of at most 140 characters.
func TestDescriptionsFit(t *testing.T) {
	eachDialect(t, func(t *testing.T, d dialect) {
		sent := hosts(t, d.takes)
		s := status
		s.Description = strings.Repeat("word\n", 100)
		if err := d.poster(t, nil).Post(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if got := field("description")((*sent)[0].Body); utf8.RuneCountInString(got) > report.MaxDescription || strings.Contains(got, "\n") {
			t.Errorf("description %q", got)
		}
	})
}

// TestBuildsHaveAURL: Bitbucket rejects builds without a URL, so the commit's page is used.
func TestBuildsHaveAURL(t *testing.T) {
	for name, want := range map[string]string{
		"bitbucket":        "http://bitbucket.org/acme/fleet/commits/" + commit,
		"bitbucket server": "http://bitbucket.example.com/projects/FLT/repos/fleet/commits/" + commit,
	} {
		d := dialects()[name]
		sent := hosts(t, d.takes)
		s := status
		s.TargetURL = ""
		if err := d.poster(t, nil).Post(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if got := field("url")((*sent)[0].Body); got != want {
			t.Errorf("%s: url %s, want %s", name, got, want)
		}
	}
}

// TestTheSecretsAuthorityIsTrusted over the proxy, for every host, and not without the Secret's certificate.
func TestTheSecretsAuthorityIsTrusted(t *testing.T) {
	eachDialect(t, func(t *testing.T, d dialect) {
		d.repository = strings.Replace(d.repository, "http://", "https://", 1)
		d.url = strings.Replace(d.url, ":3000", "", 1)
		d.repository = strings.Replace(d.repository, ":3000", "", 1)
		sent := hosts(t, d.takes)
		if err := d.poster(t, map[string]string{"ca.crt": string(internet.ca)}).Post(t.Context(), status); err != nil {
			t.Errorf("with the authority: %v", err)
		}
		if len(*sent) != 1 || (*sent)[0].URL != d.url {
			t.Errorf("sent %v, want one request to %s", *sent, d.url)
		}
		err := d.poster(t, nil).Post(t.Context(), status)
		if !as[*report.UnavailableError](err) || !strings.Contains(err.Error(), "certificate") || len(*sent) != 1 {
			t.Errorf("without it: %v, %d requests", err, len(*sent))
		}
	})
}

// TestARedirectOnTheSameHostIsFollowed, as GitHub sends for a renamed repository; a redirect to another host is not.
func TestARedirectOnTheSameHostIsFollowed(t *testing.T) {
	eachDialect(t, func(t *testing.T, d dialect) {
		sent := hosts(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/renamed" {
				http.Redirect(w, r, "/renamed", http.StatusTemporaryRedirect)
				return
			}
			d.takes(w, r)
		})
		if err := d.poster(t, nil).Post(t.Context(), status); err != nil {
			t.Fatal(err)
		}
		if len(*sent) != 2 || string((*sent)[1].Raw) != string((*sent)[0].Raw) || (*sent)[1].Header.Get(d.proof[0]) != d.expects((*sent)[0]) {
			t.Errorf("after the redirect: %v", *sent)
		}
		for _, code := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
			sent := hosts(t, func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "http://elsewhere.example.com/x", code)
			})
			err := d.poster(t, nil).Post(t.Context(), status)
			if !as[*report.MovedError](err) || !strings.Contains(err.Error(), "elsewhere.example.com") || len(*sent) != 1 {
				t.Errorf("code %d: %v, %d requests", code, err, len(*sent))
			}
		}
	})
}

// TestAHostThatDoesNotAnswer shows the errors of a timeout, of no connection, and of a shutdown.
func TestAHostThatDoesNotAnswer(t *testing.T) {
	eachDialect(t, func(t *testing.T, d dialect) {
		hosts(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := d.poster(t, nil).Post(ctx, status); !as[*report.UnavailableError](err) || !strings.Contains(err.Error(), "did not answer in time") {
			t.Errorf("a host that hangs: %v", err)
		}
		hosts(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		if err := d.poster(t, nil).Post(t.Context(), status); !as[*report.UnavailableError](err) {
			t.Errorf("a host that hangs up: %v", err)
		}
		stopped, stop := context.WithCancel(t.Context())
		hosts(t, func(_ http.ResponseWriter, r *http.Request) {
			stop()
			<-r.Context().Done()
		})
		if err := d.poster(t, nil).Post(stopped, status); !errors.Is(err, context.Canceled) || as[*report.UnavailableError](err) {
			t.Errorf("when we are stopped: %v", err)
		}
	})
}
