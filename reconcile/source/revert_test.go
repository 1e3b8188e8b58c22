package source_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

const proposal = "plumbline/revert-prod-fleet-0123abcd"

// takesPushes makes the host accept pushes.
func (h *host) takesPushes(t *testing.T) {
	t.Helper()
	git(t, h.repository, "", "config", "http.receivepack", "true")
}

// listing returns the files of a commit, each with its mode and content.
func (h *host) listing(t *testing.T, commit string) files {
	t.Helper()
	all := files{}
	for line := range strings.Lines(git(t, h.repository, "", "ls-tree", "-r", "-z", commit)) {
		for one := range strings.SplitSeq(strings.TrimSuffix(line, "\x00"), "\x00") {
			meta, name, _ := strings.Cut(one, "\t")
			fields := strings.Fields(meta)
			content := fields[2]
			if fields[1] == "blob" {
				content = git(t, h.repository, "", "cat-file", "blob", fields[2])
			}
			all[name] = fields[0] + " " + content
		}
	}
	return all
}

func (h *host) refs(t *testing.T) string {
	t.Helper()
	return git(t, h.repository, "", "for-each-ref", "--format=%(refname) %(objectname)")
}

func below(folder string) func(context.Context, *render.Snapshot) func(string) bool {
	within := func(name string) bool { return folder == "." || strings.HasPrefix(name, folder+"/") }
	return func(context.Context, *render.Snapshot) func(string) bool { return within }
}

func (c *client) revert(t *testing.T, from, bad, folder string) (source.Reverted, error) {
	t.Helper()
	done, err := c.git.Revert(t.Context(), c.request, source.Revert{
		Branch: proposal, From: from, Bad: bad, Within: below(folder), Message: "Revert\n\nbecause\n", At: time.Unix(1_700_000_000, 0),
	})
	if err != nil && strings.Contains(err.Error(), password) {
		t.Fatalf("the error holds the password: %v", err)
	}
	return done, err
}

// TestRevert shows that a revert restores files and changes nothing else.
func TestRevert(t *testing.T) {
	before := files{
		"nodes/a.yaml": "a1", "nodes/b.yaml": "b1", "nodes/deep/c.yaml": "c1", "nodes/link": "-> a.yaml", "nodes/module": "submodule",
		"README.md": "r1", "other/x": "x1", "nodes/z": "z1",
	}
	cases := map[string]struct {
		folder string
		// bad is the commit that fails, and later are the commits after it.
		bad   files
		later []files
		// want is what differs from the head; "" for a removed file.
		want  files
		newer []string
		fails string
	}{
		"a file that was changed": {folder: "nodes", bad: files{"nodes/a.yaml": "a2", "README.md": "r2"}, want: files{"nodes/a.yaml": "100644 a1"}},
		"the path is the root":    {folder: ".", bad: files{"nodes/a.yaml": "a2", "README.md": "r2"}, want: files{"nodes/a.yaml": "100644 a1", "README.md": "100644 r1"}},
		"added and deleted, with folders": {
			folder: "nodes", bad: files{"nodes/deep/c.yaml": "", "nodes/new/d.yaml": "d2", "nodes/b.yaml": ""},
			want: files{"nodes/deep/c.yaml": "100644 c1", "nodes/new/d.yaml": "", "nodes/b.yaml": "100644 b1"},
		},
		"renamed":                     {folder: "nodes", bad: files{"nodes/a.yaml": "", "nodes/e.yaml": "a1"}, want: files{"nodes/a.yaml": "100644 a1", "nodes/e.yaml": ""}},
		"a symlink that was changed":  {folder: "nodes", bad: files{"nodes/link": "-> b.yaml"}, want: files{"nodes/link": "120000 a.yaml"}},
		"a file that became a folder": {folder: "nodes", bad: files{"nodes/z": "", "nodes/z/y": "2"}, want: files{"nodes/z": "100644 z1", "nodes/z/y": ""}},
		"a folder that became a file": {folder: "nodes", bad: files{"nodes/deep/c.yaml": "", "nodes/deep": "2"}, want: files{"nodes/deep": "", "nodes/deep/c.yaml": "100644 c1"}},
		"other files were changed since": {
			folder: "nodes", bad: files{"nodes/a.yaml": "a2"}, later: []files{{"nodes/b.yaml": "b3"}, {"README.md": "r3"}}, want: files{"nodes/a.yaml": "100644 a1"},
		},
		"the same file was changed since": {
			folder: "nodes", bad: files{"nodes/a.yaml": "a2"}, later: []files{{"nodes/a.yaml": "a3"}}, want: files{"nodes/a.yaml": "100644 a1"}, newer: []string{"nodes/a.yaml"},
		},
		"it was taken back already": {folder: "nodes", bad: files{"nodes/a.yaml": "a2"}, later: []files{{"nodes/a.yaml": "a1"}}},
		"nothing was changed there": {folder: "nodes", bad: files{"README.md": "r2"}},
		"a folder stands there now": {
			folder: "nodes", bad: files{"nodes/z": ""}, later: []files{{"nodes/z/y": "3"}}, fails: "nodes/z was a file, and is none now: take the change back by hand",
		},
		"a file stands there now": {
			folder: "nodes", bad: files{"nodes/deep/c.yaml": ""}, later: []files{{"nodes/deep": "3"}}, fails: "nodes/deep was a folder, and is none now: take the change back by hand",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.takesPushes(t)
			h.commit(t, "main", files{"README.md": "r0"})
			from := h.commit(t, "main", before)
			bad := h.commit(t, "main", c.bad)
			head := bad
			for _, f := range c.later {
				head = h.commit(t, "main", f)
			}
			refs := h.refs(t)
			done, err := newClient(t, h.url, source.Options{}).revert(t, from, bad, c.folder)
			if c.fails != "" || len(c.want) == 0 {
				if got := fmt.Sprint(err); c.fails != "" && got != c.fails || c.fails == "" && (err != nil || done.Commit != "" || len(done.Files) > 0) {
					t.Errorf("done %+v, error %v; want %q", done, err, c.fails)
				}
				if h.refs(t) != refs {
					t.Errorf("pushed %s", h.refs(t))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := h.listing(t, head)
			for file, content := range c.want {
				if want[file] = content; content == "" {
					delete(want, file)
				}
			}
			if diff := cmp.Diff(want, h.listing(t, done.Commit)); diff != "" {
				t.Errorf("the commit (-want +got):\n%s", diff)
			}
			if want := fmt.Sprintf("refs/heads/main %s\nrefs/heads/%s %s\n", head, proposal, done.Commit); h.refs(t) != want {
				t.Errorf("the host has\n%swant\n%s", h.refs(t), want)
			}
			if got := strings.TrimSpace(git(t, h.repository, "", "log", "-1", "--format=%P %an %ae %ct %s", done.Commit)); got != head+" plumbline plumbline@plumbline.invalid 1700000000 Revert" || done.Head != head {
				t.Errorf("the commit is %q on %s", got, done.Head)
			}
			if diff := cmp.Diff(c.newer, done.Newer); diff != "" {
				t.Errorf("changed since (-want +got):\n%s", diff)
			}
			if len(done.Files) != len(c.want) {
				t.Errorf("files %v", done.Files)
			}
			git(t, h.repository, "", "fsck", "--strict", "--no-dangling")
		})
	}
}

// TestRevertNamesWhatItTakesBack shows that it lists each commit that changed one of its files, and no other.
func TestRevertNamesWhatItTakesBack(t *testing.T) {
	h := newHost(t)
	h.takesPushes(t)
	from := h.commit(t, "main", files{"nodes/a.yaml": "1", "nodes/b.yaml": "1"})
	second := h.commit(t, "main", files{"nodes/a.yaml": "2"})
	h.commit(t, "main", files{"nodes/b.yaml": "1", "c": "3"})
	bad := h.commit(t, "main", files{"nodes/a.yaml": "4"})
	last := h.commit(t, "main", files{"nodes/a.yaml": "5"})
	h.commit(t, "main", files{"nodes/b.yaml": "6"})
	done, err := newClient(t, h.url, source.Options{}).revert(t, from, bad, "nodes")
	want := []source.Undone{{Commit: last, Subject: "commit 5"}, {Commit: bad, Subject: "commit 4"}, {Commit: second, Subject: "commit 2"}}
	if diff := cmp.Diff(want, done.Undone); err != nil || diff != "" || done.More {
		t.Errorf("more %v, error %v (-want +got):\n%s", done.More, err, diff)
	}
}

// TestRevertNamesWhatItLeaves shows that Within can use the files of the commit before, and that other changed files
// are listed.
func TestRevertNamesWhatItLeaves(t *testing.T) {
	h := newHost(t)
	h.takesPushes(t)
	from := h.commit(t, "main", files{"list": "base/a.yaml", "base/a.yaml": "a1", "base/README.md": "r1", "c": "c1"})
	bad := h.commit(t, "main", files{"list": "", "base/a.yaml": "", "base/README.md": "", "c": "c2", "d": "d2"})
	c := newClient(t, h.url, source.Options{})
	done, err := c.git.Revert(t.Context(), c.request, source.Revert{
		Branch: proposal, From: from, Bad: bad, Message: "m", At: time.Unix(1_700_000_000, 0),
		Within: func(_ context.Context, from *render.Snapshot) func(string) bool {
			listed, err := fs.ReadFile(from.FS, "list")
			if err != nil {
				t.Error(err)
			}
			return func(name string) bool { return name == "list" || path.Clean(string(listed)) == name }
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][]string{{"base/a.yaml", "list"}, {"base/README.md", "c", "d"}}, [][]string{done.Files, done.Left}); diff != "" {
		t.Errorf("taken back, and left (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(files{"list": "100644 base/a.yaml", "base/a.yaml": "100644 a1", "c": "100644 c2", "d": "100644 d2"}, h.listing(t, done.Commit)); diff != "" {
		t.Errorf("the commit (-want +got):\n%s", diff)
	}
}

// TestRevertOfALargeDeletion: the deleted files may be many times larger than the rest of the repository.
func TestRevertOfALargeDeletion(t *testing.T) {
	h := newHost(t)
	h.takesPushes(t)
	large := make([]byte, 3<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(large) // incompressible
	h.commit(t, "main", files{"nodes/a.yaml": "1"})
	from := h.commit(t, "main", files{"nodes/large": fmt.Sprintf("%x", large)})
	bad := h.commit(t, "main", files{"nodes/large": ""})
	done, err := newClient(t, h.url, source.Options{}).revert(t, from, bad, "nodes")
	if err != nil || !slices.Equal(done.Files, []string{"nodes/large"}) {
		t.Errorf("done %+v, error %v", done, err)
	}
}

// TestRevertOfARewrittenHistory shows that files of the previous commit are restored if the host still has it, and that
// the commits in between are reported as unknown.
func TestRevertOfARewrittenHistory(t *testing.T) {
	h := newHost(t)
	h.takesPushes(t)
	git(t, h.repository, "", "config", "uploadpack.allowAnySHA1InWant", "true")
	from := h.commit(t, "main", files{"nodes/a.yaml": "1", "b": "1"})
	bad := h.orphan(t, "main", files{"nodes/a.yaml": "2", "b": "2"})
	done, err := newClient(t, h.url, source.Options{}).revert(t, from, bad, "nodes")
	if err != nil || !done.More {
		t.Fatalf("done %+v, error %v", done, err)
	}
	if diff := cmp.Diff(files{"nodes/a.yaml": "100644 1", "b": "100644 2"}, h.listing(t, done.Commit)); diff != "" {
		t.Errorf("the commit (-want +got):\n%s", diff)
	}
	git(t, h.repository, "", "config", "uploadpack.allowAnySHA1InWant", "false")
	git(t, h.repository, "", "update-ref", "-d", "refs/heads/"+proposal)
	if _, err := newClient(t, h.url, source.Options{}).revert(t, from, bad, "nodes"); !errors.As(err, new(*source.HistoryError)) {
		t.Errorf("a commit that the host does not give out: %v", err)
	}
}

// TestRevertIsPushedOnce shows that an earlier push counts, even if the followed branch has moved since, and that a
// branch with any other content is left alone.
func TestRevertIsPushedOnce(t *testing.T) {
	h := newHost(t)
	h.takesPushes(t)
	from := h.commit(t, "main", files{"nodes/a.yaml": "1"})
	bad := h.commit(t, "main", files{"nodes/a.yaml": "2"})
	c := newClient(t, h.url, source.Options{})
	first, err := c.revert(t, from, bad, "nodes")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := c.revert(t, from, bad, "nodes"); err != nil || again.Commit != first.Commit {
		t.Errorf("again: %+v, error %v", again, err)
	}
	h.commit(t, "main", files{"nodes/b.yaml": "3"})
	if moved, err := c.revert(t, from, bad, "nodes"); err != nil || moved.Commit != first.Commit || moved.Head != bad {
		t.Errorf("after another commit: %+v, error %v", moved, err)
	}
	for name, other := range map[string]func(){
		"with another commit on it": func() { h.commit(t, proposal, files{"nodes/a.yaml": "7"}) },
		"of a history of its own":   func() { h.orphan(t, proposal, files{"nodes/a.yaml": "8"}) },
		"at the branch itself":      func() { git(t, h.repository, "", "update-ref", "refs/heads/"+proposal, bad) },
	} {
		other()
		refs := h.refs(t)
		if _, err := c.revert(t, from, bad, "nodes"); !errors.As(err, new(*source.BranchError)) {
			t.Errorf("%s: %v", name, err)
		}
		if h.refs(t) != refs {
			t.Errorf("%s: it was pushed over", name)
		}
	}
}

// TestRevertWritesOnlyBelowItsOwnName shows that no other branch is ever written.
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

// TestAPushIsRefused shows that the error says which permission is missing.
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

// TestRevertOverSSH pushes with a key that may push, and reports another one that may not.
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
