package githost

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
)

// patience is how long a test waits for something.
const patience = 20 * time.Second

// start runs one host for a test and its subtests.
func start(t *testing.T) *Host {
	t.Helper()
	cache, err := binaries.DefaultCache()
	if err != nil {
		t.Fatal(err)
	}
	builder := binaries.Builder{Source: "../bin", Cache: cache, Progress: &binaries.Progress{Out: os.Stderr}}
	built, err := builder.Build(t.Context(), binaries.Gitea)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	h, err := Start(t.Context(), Options{Binary: built[binaries.Gitea], ModuleDir: "../bin/gitea", Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("ready in %s", time.Since(began).Round(time.Millisecond))
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// clone is a work tree of a test's client.
type clone struct {
	dir string
	env []string
}

func newClone(t *testing.T, h *Host, keyFile string) clone {
	t.Helper()
	env, err := h.ClientEnv(t.TempDir(), keyFile)
	if err != nil {
		t.Fatal(err)
	}
	c := clone{dir: t.TempDir(), env: append(env, "PATH="+filepath.Dir(look(t, "git"))+":"+filepath.Dir(look(t, "ssh")))}
	c.mustGit(t, "init", "--quiet")
	return c
}

func look(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func (c clone) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Env = c.dir, c.env
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (c clone) mustGit(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.git(t.Context(), args...)
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// commit adds a file and returns the commit's SHA.
func (c clone) commit(t *testing.T, file string) string {
	t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, file), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	c.mustGit(t, "add", file)
	c.mustGit(t, "commit", "--quiet", "--message", "Add "+file)
	return c.mustGit(t, "rev-parse", "HEAD")
}

func TestHost(t *testing.T) {
	h := start(t)
	alice, err := h.CreateUser(t.Context(), "alice")
	if err != nil {
		t.Fatal(err)
	}
	r, err := h.CreateRepo(t.Context(), alice.Name, "fleet")
	if err != nil {
		t.Fatal(err)
	}

	t.Run("push over http, a status, a pull request", func(t *testing.T) {
		c := newClone(t, h, "")
		sha := c.commit(t, "a")
		if out, err := c.git(t.Context(), "push", r.HTTPURL, "HEAD:main"); err == nil {
			t.Errorf("a push without a token was taken:\n%s", out)
		}
		c.mustGit(t, "push", r.As(alice), "HEAD:main")
		testStatuses(t, h, alice, r, sha)

		c.mustGit(t, "switch", "--create", "change")
		c.commit(t, "b")
		c.mustGit(t, "push", r.As(alice), "HEAD:change")
		pull, err := h.OpenPullRequest(t.Context(), r, "A change", "change", "main")
		if err != nil {
			t.Fatal(err)
		}
		if pull.Number != 1 || !strings.HasPrefix(pull.URL, h.URL) {
			t.Errorf("pull request %+v", pull)
		}
	})
	t.Run("a user's key over ssh", func(t *testing.T) {
		key := newKey(t, h, "alice")
		if err := h.AddUserKey(t.Context(), alice, key); err != nil {
			t.Fatal(err)
		}
		c := newClone(t, h, key.PrivateFile)
		sha := c.commit(t, "c")
		c.mustGit(t, "push", r.SSHURL, "HEAD:by-ssh")
		if out := c.mustGit(t, "ls-remote", r.SSHURL, "refs/heads/by-ssh"); !strings.HasPrefix(out, sha) {
			t.Errorf("by-ssh is %q, want %s", out, sha)
		}
	})
	t.Run("a deploy key reads one repository", func(t *testing.T) { testDeployKey(t, h, alice, r) })
	t.Run("a webhook tells of a push, signed", func(t *testing.T) { testWebhook(t, h, alice) })
}

func newKey(t *testing.T, h *Host, name string) Key {
	t.Helper()
	key, err := h.NewKey(name)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func testStatuses(t *testing.T, h *Host, u User, r Repository, sha string) {
	t.Helper()
	want := []Status{
		{State: "pending", Context: "plumbline/prod/nodes", Description: "2 of 3 objects applied"},
		{State: "success", Context: "plumbline/prod/nodes", Description: "applied, Ready, no removal open"},
	}
	for _, s := range want {
		err := h.call(t.Context(), u, http.MethodPost, r.path()+"/statuses/"+sha,
			map[string]any{"state": s.State, "context": s.Context, "description": s.Description}, nil)
		if err != nil {
			t.Fatal(err)
		}
	}
	got, err := h.Statuses(t.Context(), r.Owner, r.Name, sha)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Status{}, "Created", "ID")); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
}

func testDeployKey(t *testing.T, h *Host, owner User, r Repository) {
	t.Helper()
	key := newKey(t, h, "deploy")
	c := newClone(t, h, key.PrivateFile)
	if out, err := c.git(t.Context(), "ls-remote", r.SSHURL); err == nil {
		t.Errorf("an unknown key may read:\n%s", out)
	}
	if err := h.AddDeployKey(t.Context(), r, key, false); err != nil {
		t.Fatal(err)
	}
	c.mustGit(t, "ls-remote", r.SSHURL)
	c.commit(t, "d")
	if out, err := c.git(t.Context(), "push", r.SSHURL, "HEAD:by-deploy-key"); err == nil {
		t.Errorf("a key that may only read may push:\n%s", out)
	}
	other, err := h.CreateRepo(t.Context(), owner.Name, "other")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := c.git(t.Context(), "ls-remote", other.SSHURL); err == nil {
		t.Errorf("the key may read another repository:\n%s", out)
	}
}

func testWebhook(t *testing.T, h *Host, owner User) {
	t.Helper()
	type delivery struct {
		body      []byte
		signature string
	}
	deliveries := make(chan delivery, 8)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		deliveries <- delivery{body: body, signature: request.Header.Get("X-Gitea-Signature")}
	}))
	t.Cleanup(receiver.Close)
	r, err := h.CreateRepo(t.Context(), owner.Name, "hooked")
	if err != nil {
		t.Fatal(err)
	}
	if err := h.AddWebhook(t.Context(), r, receiver.URL, "shared"); err != nil {
		t.Fatal(err)
	}
	c := newClone(t, h, "")
	sha := c.commit(t, "e")
	c.mustGit(t, "push", r.As(owner), "HEAD:main")

	select {
	case got := <-deliveries:
		mac := hmac.New(sha256.New, []byte("shared"))
		mac.Write(got.body)
		if want := hex.EncodeToString(mac.Sum(nil)); got.signature != want {
			t.Errorf("signature %q, want %q", got.signature, want)
		}
		if !bytes.Contains(got.body, []byte(sha)) {
			t.Errorf("the delivery does not name %s:\n%s", sha, got.body)
		}
	case <-time.After(patience):
		t.Fatalf("no delivery in %s", patience)
	}
}
