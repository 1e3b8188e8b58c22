package webhook

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// TestForgeries: the authentication of each host, with something wrong.
func TestForgeries(t *testing.T) {
	b := newBed(t, tokenSecret(theToken), following("hub", "https://github.com/codertocat/hello-world", v1alpha1.GitRef{}))
	body := payloadOf(t, "github/push.json")
	events := map[string]string{"github": "push", "gitea": "push", "forgejo": "push", "gitlab": "Push Hook", "bitbucket": "repo:push", "bitbucketserver": "repo:refs_changed", "azuredevops": "git.push"}
	proofs := map[string]string{"github": "X-Hub-Signature-256", "gitea": "X-Gitea-Signature", "forgejo": "X-Forgejo-Signature", "gitlab": "X-Gitlab-Token", "bitbucket": "X-Hub-Signature", "bitbucketserver": "X-Hub-Signature", "azuredevops": "Authorization"}
	wrongs := map[string]func(host string) http.Header{
		"another token": func(host string) http.Header { return delivery(host, events[host], body, "wrong horse") },
		"no token":      func(host string) http.Header { return delivery(host, events[host], body, "") },
		"longer token":  func(host string) http.Header { return delivery(host, events[host], body, theToken+"s") },
		"no proof": func(host string) http.Header {
			h := delivery(host, events[host], body, theToken)
			if h.Del(proofs[host]); host == "azuredevops" { // it has no other header
				h.Set("Authorization", "Bearer "+theToken)
			}
			return h
		},
		"empty proof": func(host string) http.Header {
			h := delivery(host, events[host], body, theToken)
			if h.Set(proofs[host], ""); host == "azuredevops" {
				h.Set("Authorization", "Basic ")
			}
			return h
		},
		"a prefix of the proof": func(host string) http.Header {
			h := delivery(host, events[host], body, theToken)
			h.Set(proofs[host], h.Get(proofs[host])[:10])
			return h
		},
		"of another body": func(host string) http.Header {
			if host == "gitlab" || host == "azuredevops" {
				return delivery(host, events[host], body, "wrong horse") // it signs no body
			}
			return delivery(host, events[host], append([]byte(" "), body...), theToken)
		},
	}
	for wrong, header := range wrongs {
		for host := range events {
			t.Run(host+", "+wrong, func(t *testing.T) {
				b.clock.at = b.clock.at.Add(time.Minute)
				status, a := b.post(header(host), body)
				if status != http.StatusUnauthorized || a.Woken != 0 || len(b.woken) > 0 {
					t.Errorf("answer %d %+v, woken %v", status, a, b.woken)
				}
			})
		}
	}
	if strings.Contains(b.log.String(), theToken) || strings.Contains(b.log.String(), hmacOf(body, theToken)[:8]) || strings.Contains(b.log.String(), "Codertocat") {
		t.Errorf("the log tells a token, a signature or a body:\n%s", b.log)
	}
}

func TestRefusals(t *testing.T) {
	body := payloadOf(t, "github/push.json")
	good := func() http.Header { return delivery("github", "push", body, theToken) }
	with := func(key, value string) http.Header {
		h := good()
		h.Set(key, value)
		return h
	}
	huge := bytes.Repeat([]byte(" "), maxBody+1)
	cases := map[string]struct {
		method, path string
		header       http.Header
		body         []byte
		status       int
	}{
		"another method":               {http.MethodGet, Path, good(), nil, 405},
		"another path":                 {http.MethodPost, "/", good(), body, 404},
		"below the path":               {http.MethodPost, Path + "/x", good(), body, 404},
		"a form":                       {http.MethodPost, Path, with("Content-Type", "application/x-www-form-urlencoded"), body, 415},
		"no content type":              {http.MethodPost, Path, with("Content-Type", ""), body, 415},
		"a content type and a charset": {http.MethodPost, Path, with("Content-Type", "application/json; charset=utf-8"), body, 202},
		"nobody we know":               {http.MethodPost, Path, http.Header{"Content-Type": {"application/json"}}, body, 400},
		"over the limit":               {http.MethodPost, Path, delivery("github", "push", huge, theToken), huge, 413},
		"at the limit":                 {http.MethodPost, Path, delivery("github", "issues", huge[1:], theToken), huge[1:], 202},
		"no JSON":                      {http.MethodPost, Path, delivery("github", "push", []byte("{"), theToken), []byte("{"), 400},
		"no body":                      {http.MethodPost, Path, delivery("github", "push", nil, theToken), nil, 400},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, tokenSecret(theToken))
			w := b.serve(c.method, c.path, c.header, c.body)
			if w.Code != c.status || len(b.woken) > 0 {
				t.Errorf("answer %d %s, woken %v", w.Code, w.Body, b.woken)
			}
		})
	}
}

// TestNothingIsParsedBeforeTheProofHolds: an unauthenticated client gets the same response for any body.
func TestNothingIsParsedBeforeTheProofHolds(t *testing.T) {
	b := newBed(t, tokenSecret(theToken))
	valid := payloadOf(t, "github/push.json")
	for _, event := range []string{"push", "ping", "issues"} {
		want, wantSays := b.post(delivery("github", event, valid, "wrong"), valid)
		got, gotSays := b.post(delivery("github", event, []byte("{"), "wrong"), []byte("{"))
		if got != want || got != http.StatusUnauthorized || gotSays != wantSays {
			t.Errorf("%s: %d %+v of a push, %d %+v of no JSON", event, want, wantSays, got, gotSays)
		}
	}
}

func TestTooManyRequests(t *testing.T) {
	b := newBed(t, tokenSecret(theToken))
	body := payloadOf(t, "github/push.json")
	header := delivery("github", "push", body, theToken)
	for range requestsOfOne.Burst {
		if w := b.serve(http.MethodPost, Path, header, body); w.Code != 202 {
			t.Fatalf("answer %d %s", w.Code, w.Body)
		}
	}
	w := b.serve(http.MethodPost, Path, header, body)
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" {
		t.Errorf("answer %d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
	}
	b.clock.at = b.clock.at.Add(time.Second)
	if w := b.serve(http.MethodPost, Path, header, body); w.Code != 202 {
		t.Errorf("after that: %d", w.Code)
	}
}
