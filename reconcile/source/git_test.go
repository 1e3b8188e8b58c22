package source_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

// client fetches from a host with one store.
type client struct {
	git     *source.Git
	dir     string
	request source.Request
}

func newClient(t *testing.T, url string, o source.Options) *client {
	t.Helper()
	o.Dir = t.TempDir()
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	return &client{git: source.NewGit(o), dir: o.Dir, request: source.Request{
		Key: "default/fleet", URL: url,
		Credentials: source.Credentials{Username: user, Password: password},
	}}
}

func (c *client) fetch(t *testing.T, ref v1alpha1.GitRef) (*render.Snapshot, error) {
	t.Helper()
	c.request.Ref = ref
	s, _, err := c.git.Fetch(t.Context(), c.request)
	if err != nil && strings.Contains(err.Error(), password) {
		t.Fatalf("the error holds the password: %v", err)
	}
	return s, err
}

func (c *client) mustFetch(t *testing.T, ref v1alpha1.GitRef) *render.Snapshot {
	t.Helper()
	s, err := c.fetch(t, ref)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// content reads every file of a Snapshot.
func content(t *testing.T, s *render.Snapshot) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(s.FS, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := fs.ReadFile(s.FS, name)
		all[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func wantContent(t *testing.T, s *render.Snapshot, commit string, want map[string]string) {
	t.Helper()
	if s.Commit != commit {
		t.Errorf("commit %s, want %s", s.Commit, commit)
	}
	if diff := cmp.Diff(want, content(t, s)); diff != "" {
		t.Error(diff)
	}
}

func TestFetchFollowsABranch(t *testing.T) {
	h := newHost(t)
	c := newClient(t, h.url, source.Options{})
	first := h.commit(t, "main", files{"a.yaml": "a", "nodes/b.yaml": "b"})
	s := c.mustFetch(t, v1alpha1.GitRef{})
	wantContent(t, s, first, map[string]string{"a.yaml": "a", "nodes/b.yaml": "b"})
	if want := "main@sha1:" + first; s.Revision != want {
		t.Errorf("revision %s, want %s", s.Revision, want)
	}
	c.mustFetch(t, v1alpha1.GitRef{})
	if h.packs.Load() != 1 {
		t.Errorf("%d packs fetched for one commit", h.packs.Load())
	}
	second := h.commit(t, "main", files{"nodes/b.yaml": "bb", "c.yaml": "c", "a.yaml": ""})
	third := h.commit(t, "main", files{"c.yaml": "cc"})
	newer := c.mustFetch(t, v1alpha1.GitRef{Branch: "main"})
	wantContent(t, newer, third, map[string]string{"nodes/b.yaml": "bb", "c.yaml": "cc"})
	// The older Snapshot stays what it was, and what lies between is there too.
	wantContent(t, s, first, map[string]string{"a.yaml": "a", "nodes/b.yaml": "b"})
	h.point(t, "refs/heads/main", second)
	wantContent(t, c.mustFetch(t, v1alpha1.GitRef{}), second, map[string]string{"nodes/b.yaml": "bb", "c.yaml": "c"})
	if h.packs.Load() != 2 || h.asked.Load() != 4 {
		t.Errorf("%d packs and %d questions for 4 fetches of 2 changes", h.packs.Load(), h.asked.Load())
	}
}

func TestFetchResolvesReferences(t *testing.T) {
	h := newHost(t)
	old := h.commit(t, "main", files{"a.yaml": "1"})
	git(t, h.repository, "", "tag", "v1.2.3", "main")
	middle := h.commit(t, "main", files{"a.yaml": "2"})
	annotate(t, h, "v1.10.0", "main")
	tip := h.commit(t, "main", files{"a.yaml": "3"})
	git(t, h.repository, "", "tag", "2.0.0-rc.1", "main")
	git(t, h.repository, "", "update-ref", "refs/pull/7/head", "main")
	cases := map[string]struct {
		ref              v1alpha1.GitRef
		revision, commit string
	}{
		"nothing":            {v1alpha1.GitRef{}, "main@sha1:" + tip, tip},
		"branch":             {v1alpha1.GitRef{Branch: "main"}, "main@sha1:" + tip, tip},
		"tag":                {v1alpha1.GitRef{Tag: "v1.2.3"}, "v1.2.3@sha1:" + old, old},
		"annotated tag":      {v1alpha1.GitRef{Tag: "v1.10.0"}, "v1.10.0@sha1:" + middle, middle},
		"range":              {v1alpha1.GitRef{SemVer: ">=1.0.0"}, "v1.10.0@sha1:" + middle, middle},
		"narrow range":       {v1alpha1.GitRef{SemVer: "~1.2"}, "v1.2.3@sha1:" + old, old},
		"range with rc":      {v1alpha1.GitRef{SemVer: ">=1.0.0-0"}, "2.0.0-rc.1@sha1:" + tip, tip},
		"range before tag":   {v1alpha1.GitRef{SemVer: "1.2.x", Tag: "v1.10.0"}, "v1.2.3@sha1:" + old, old},
		"name":               {v1alpha1.GitRef{Name: "refs/pull/7/head"}, "refs/pull/7/head@sha1:" + tip, tip},
		"tip by commit":      {v1alpha1.GitRef{Commit: tip}, "sha1:" + tip, tip},
		"old commit":         {v1alpha1.GitRef{Commit: old}, "sha1:" + old, old},
		"commit in a branch": {v1alpha1.GitRef{Commit: middle, Branch: "main"}, "main@sha1:" + middle, middle},
	}
	contents := map[string]string{old: "1", middle: "2", tip: "3"}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newClient(t, h.url, source.Options{}).mustFetch(t, c.ref)
			wantContent(t, s, c.commit, map[string]string{"a.yaml": contents[c.commit]})
			if s.Revision != c.revision {
				t.Errorf("revision %s, want %s", s.Revision, c.revision)
			}
		})
	}
	t.Run("one store for all", func(t *testing.T) {
		all := newClient(t, h.url, source.Options{})
		for name, c := range cases {
			if s := all.mustFetch(t, c.ref); s.Revision != c.revision {
				t.Errorf("%s: revision %s, want %s", name, s.Revision, c.revision)
			}
		}
	})
	t.Run("old commit by its hash", func(t *testing.T) {
		git(t, h.repository, "", "config", "uploadpack.allowReachableSHA1InWant", "true")
		s := newClient(t, h.url, source.Options{}).mustFetch(t, v1alpha1.GitRef{Commit: old})
		wantContent(t, s, old, map[string]string{"a.yaml": "1"})
	})
}

func annotate(t *testing.T, h *host, tag, at string) {
	t.Helper()
	git(t, h.repository, "", "-c", "user.name=T", "-c", "user.email=t@example.com", "tag", "-f", "-a", "-m", "release", tag, at)
}

func TestFetchNamesWhatIsMissing(t *testing.T) {
	h := newHost(t)
	empty := newHost(t)
	h.commit(t, "main", files{"a.yaml": "a"})
	nowhere := strings.Repeat("ab", 20)
	cases := map[string]struct {
		url  string
		ref  v1alpha1.GitRef
		what string
	}{
		"branch":     {h.url, v1alpha1.GitRef{Branch: "gone"}, "branch gone"},
		"tag":        {h.url, v1alpha1.GitRef{Tag: "v1"}, "tag v1"},
		"range":      {h.url, v1alpha1.GitRef{SemVer: ">1"}, "tag in the range >1"},
		"name":       {h.url, v1alpha1.GitRef{Name: "refs/x"}, "reference refs/x"},
		"commit":     {h.url, v1alpha1.GitRef{Commit: nowhere}, "commit " + nowhere},
		"repository": {h.server.URL + "/other.git", v1alpha1.GitRef{}, "repository"},
		"any commit": {empty.url, v1alpha1.GitRef{}, "commit"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := newClient(t, c.url, source.Options{}).fetch(t, c.ref)
			var gone *source.NotFoundError
			if !errors.As(err, &gone) || gone.What != c.what {
				t.Fatalf("error %v, want a NotFoundError of %s", err, c.what)
			}
		})
	}
}

func TestFetchAfterRewrites(t *testing.T) {
	cases := map[string]func(*testing.T, *host) (commit string, want map[string]string){
		"older than the clone": func(t *testing.T, h *host) (string, map[string]string) {
			base := strings.TrimSpace(git(t, h.repository, "", "rev-parse", "main~2"))
			h.point(t, "refs/heads/main", base)
			return base, map[string]string{"a.yaml": "0", "b.yaml": "b"}
		},
		"unrelated": func(t *testing.T, h *host) (string, map[string]string) {
			return h.orphan(t, "main", files{"z.yaml": "z"}), map[string]string{"z.yaml": "z"}
		},
		"unrelated, the old one collected": func(t *testing.T, h *host) (string, map[string]string) {
			commit := h.orphan(t, "main", files{"z.yaml": "z"})
			git(t, h.repository, "", "gc", "-q", "--prune=now")
			return commit, map[string]string{"z.yaml": "z"}
		},
		"amended": func(t *testing.T, h *host) (string, map[string]string) {
			git(t, h.repository, "", "update-ref", "refs/heads/main", "main~1")
			return h.commit(t, "main", files{"a.yaml": "amended"}), map[string]string{"a.yaml": "amended", "b.yaml": "b"}
		},
	}
	for name, rewrite := range cases {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.commit(t, "main", files{"a.yaml": "0", "b.yaml": "b"})
			h.commit(t, "main", files{"a.yaml": "1"})
			h.commit(t, "main", files{"a.yaml": "2"})
			c := newClient(t, h.url, source.Options{})
			c.mustFetch(t, v1alpha1.GitRef{})
			commit, want := rewrite(t, h)
			wantContent(t, c.mustFetch(t, v1alpha1.GitRef{}), commit, want)
			wantOneStore(t, c)
		})
	}
}

// wantOneStore shows that nothing is left of stores that were replaced, or of
// fetches that failed.
func wantOneStore(t *testing.T, c *client) {
	t.Helper()
	stores, err := filepath.Glob(filepath.Join(c.dir, "stores", "*"))
	if err != nil || len(stores) != 1 {
		t.Fatalf("stores %v, %v: want one", stores, err)
	}
	packs, err := os.ReadDir(filepath.Join(stores[0], "objects", "pack"))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, p := range packs {
		names[p.Name()] = true
	}
	for name := range names {
		pack, index := strings.CutSuffix(name, ".idx")
		pack = strings.TrimSuffix(pack, ".pack") + ".pack"
		if ext := filepath.Ext(name); ext != ".pack" && !index || !names[pack] {
			t.Errorf("%s is left over", name)
		}
	}
}

func TestFetchWhenABranchIsDeletedAndComesBack(t *testing.T) {
	h := newHost(t)
	c := newClient(t, h.url, source.Options{})
	commit := h.commit(t, "main", files{"a.yaml": "a"})
	h.commit(t, "other", files{"o.yaml": "o"})
	s := c.mustFetch(t, v1alpha1.GitRef{})
	git(t, h.repository, "", "update-ref", "-d", "refs/heads/main")
	_, err := c.fetch(t, v1alpha1.GitRef{})
	var gone *source.NotFoundError
	if !errors.As(err, &gone) || gone.What != "branch main" {
		t.Fatalf("error %v, want a NotFoundError of branch main", err)
	}
	wantContent(t, s, commit, map[string]string{"a.yaml": "a"})
	git(t, h.repository, "", "update-ref", "refs/heads/main", commit)
	wantContent(t, c.mustFetch(t, v1alpha1.GitRef{}), commit, map[string]string{"a.yaml": "a"})
	if h.packs.Load() != 1 {
		t.Errorf("%d packs fetched, want 1", h.packs.Load())
	}
}

func TestFetchFollowsAMovingTag(t *testing.T) {
	h := newHost(t)
	c := newClient(t, h.url, source.Options{})
	first := h.commit(t, "main", files{"a.yaml": "1"})
	annotate(t, h, "stable", "main")
	wantContent(t, c.mustFetch(t, v1alpha1.GitRef{Tag: "stable"}), first, map[string]string{"a.yaml": "1"})
	second := h.commit(t, "main", files{"a.yaml": "2"})
	annotate(t, h, "stable", "main")
	wantContent(t, c.mustFetch(t, v1alpha1.GitRef{Tag: "stable"}), second, map[string]string{"a.yaml": "2"})
}

// What a commit takes back from before the clone is sent again, although the
// host knows that an ancestor of our tip had it: it is told where we were cut off.
func TestFetchOfARevert(t *testing.T) {
	h := newHost(t)
	h.commit(t, "main", files{"a.yaml": "old", "nodes/b.yaml": "old b"})
	h.commit(t, "main", files{"a.yaml": "new", "nodes/b.yaml": ""})
	git(t, h.repository, "", "repack", "-q", "-a", "-d", "-b")
	c := newClient(t, h.url, source.Options{})
	c.mustFetch(t, v1alpha1.GitRef{})
	commit := h.commit(t, "main", files{"a.yaml": "old", "nodes/b.yaml": "old b"})
	wantContent(t, c.mustFetch(t, v1alpha1.GitRef{}), commit, map[string]string{"a.yaml": "old", "nodes/b.yaml": "old b"})
	if h.packs.Load() != 2 {
		t.Errorf("%d packs fetched, want the clone and one increment", h.packs.Load())
	}
}

func TestFetchClonesAnewWhenTheStoreIsDamaged(t *testing.T) {
	h := newHost(t)
	c := newClient(t, h.url, source.Options{})
	commit := h.commit(t, "main", files{"a.yaml": "a"})
	s := c.mustFetch(t, v1alpha1.GitRef{})
	packs, err := filepath.Glob(filepath.Join(c.dir, "stores", "*", "objects", "pack", "*.pack"))
	if err != nil || len(packs) != 1 {
		t.Fatal(packs, err)
	}
	if err := os.Truncate(packs[0], 12); err != nil {
		t.Fatal(err)
	}
	if _, err := fs.ReadFile(s.FS, "a.yaml"); err == nil {
		t.Fatal("a file is read from a damaged store")
	}
	wantContent(t, c.mustFetch(t, v1alpha1.GitRef{}), commit, map[string]string{"a.yaml": "a"})
	var stale *source.StaleError
	if _, err := fs.ReadFile(s.FS, "a.yaml"); !errors.As(err, &stale) {
		t.Errorf("error %v from a replaced store, want a StaleError", err)
	}
	wantOneStore(t, c)
}

func TestForget(t *testing.T) {
	h := newHost(t)
	c := newClient(t, h.url, source.Options{})
	h.commit(t, "main", files{"a.yaml": "a"})
	c.mustFetch(t, v1alpha1.GitRef{})
	if err := c.git.Forget(c.request.Key); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Join(c.dir, "stores")); err != nil || len(left) != 0 {
		t.Errorf("left on disk: %v, %v", left, err)
	}
	c.mustFetch(t, v1alpha1.GitRef{})
}
