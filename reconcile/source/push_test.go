package source_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/source"
)

// TestRevertWritesOnlyBelowItsOwnName: no other branch, whatever it is asked for.
func TestRevertWritesOnlyBelowItsOwnName(t *testing.T) {
	h := newHost(t)
	h.takesPushes(t)
	from := h.commit(t, "main", files{"nodes/a.yaml": "1"})
	bad := h.commit(t, "main", files{"nodes/a.yaml": "2"})
	refs := h.refs(t)
	for _, branch := range []string{"main", "plumbline", "plumbline/", "release/plumbline/x", "plumbline/../main", "plumbline/a b"} {
		c := newClient(t, h.url, source.Options{})
		if _, err := c.git.Revert(t.Context(), c.request, source.Revert{Branch: branch, From: from, Bad: bad, Within: below(".")}); err == nil {
			t.Errorf("%q is written", branch)
		}
	}
	if h.refs(t) != refs {
		t.Errorf("the host has %s", h.refs(t))
	}
}

// TestAPushIsRefused: the error says which right is missing.
func TestAPushIsRefused(t *testing.T) {
	cases := map[string]struct {
		answer func(h *host, next http.Handler) http.Handler
		hook   string
		denied bool
		says   string
	}{
		"403":    {answer: refusing(http.StatusForbidden), denied: true, says: "let the secret that source.git.secretRef names push branches"},
		"401":    {answer: refusing(http.StatusUnauthorized), denied: true, says: "let the secret"},
		"404":    {answer: refusing(http.StatusNotFound), denied: true, says: "let the secret"},
		"a hook": {hook: "#!/bin/sh\necho no branches here, " + password + "\nexit 1\n", says: "pre-receive hook declined no branches here"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.takesPushes(t)
			from := h.commit(t, "main", files{"nodes/a.yaml": "1"})
			bad := h.commit(t, "main", files{"nodes/a.yaml": "2"})
			if c.answer != nil {
				h.handler = c.answer(h, h.handler)
			}
			if c.hook != "" {
				if err := os.WriteFile(filepath.Join(h.repository, "hooks/pre-receive"), []byte(c.hook), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			_, err := newClient(t, h.url, source.Options{}).revert(t, from, bad, "nodes")
			var refused *source.PushError
			if !errors.As(err, &refused) || refused.Denied != c.denied || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), proposal) {
				t.Errorf("%T: %v", err, err)
			}
		})
	}
}

func refusing(code int) func(*host, http.Handler) http.Handler {
	return func(_ *host, next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.String(), "git-receive-pack") {
				http.Error(w, "Write access to repository not granted.", code)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// TestRevertOverSSH pushes with a key that may, and says of another that it may not.
func TestRevertOverSSH(t *testing.T) {
	hostKey, _ := newKey(t)
	signer, plain := newKey(t)
	h := newSSHHost(t, signer.PublicKey(), hostKey)
	from := h.commit(t, "main", files{"nodes/a.yaml": "1"})
	bad := h.commit(t, "main", files{"nodes/a.yaml": "2"})
	c := newClient(t, h.url, source.Options{})
	c.request.Credentials = source.Credentials{Identity: plain, KnownHosts: knownHosts(h.addr, hostKey)}
	var refused *source.PushError
	for _, h.readOnly = range []string{githubReadOnly, giteaReadOnly} {
		if _, err := c.revert(t, from, bad, "nodes"); !errors.As(err, &refused) || !refused.Denied {
			t.Errorf("a key that may only read: %v", err)
		}
	}
	h.readOnly = ""
	done, err := c.revert(t, from, bad, "nodes")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(files{"nodes/a.yaml": "100644 1"}, h.listing(t, done.Commit)); diff != "" {
		t.Errorf("the commit (-want +got):\n%s", diff)
	}
	if err := os.WriteFile(filepath.Join(h.repository, "hooks/pre-receive"), []byte("#!/bin/sh\necho no\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	git(t, h.repository, "", "update-ref", "-d", "refs/heads/"+proposal)
	if _, err := c.revert(t, from, bad, "nodes"); !errors.As(err, &refused) || refused.Denied || !strings.Contains(err.Error(), "pre-receive hook declined no") {
		t.Errorf("a hook: %v", err)
	}
}
