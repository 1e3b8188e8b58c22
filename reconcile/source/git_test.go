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
	// The older Snapshot does not change, and commits in between are available too.
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

// TestStoresShareTheirSpace: two repositories fit individually but not together. The second is refused, the first keeps
// working, also when a new clone replaces its store, and forgetting the first makes room for the second.
func TestStoresShareTheirSpace(t *testing.T) {
	r := newNoise()
	first, second := newHost(t), newHost(t)
	first.commit(t, "main", files{"noise": noise(r, 3<<20)})
	second.commit(t, "main", files{"noise": noise(r, 3<<20)})
	c := newClient(t, first.url, source.Options{MaxBytes: 4 << 20, Space: &source.Space{Limit: 4 << 20}})
	c.mustFetch(t, v1alpha1.GitRef{})
	fetchSecond := func() error {
		_, _, err := c.git.Fetch(t.Context(), source.Request{Key: "default/second", URL: second.url, Credentials: c.request.Credentials})
		return err
	}
	var full *source.SpaceError
	if err := fetchSecond(); !errors.As(err, &full) || full.Limit != 4<<20 {
		t.Fatalf("error %v, want a SpaceError of 4 MiB", err)
	}
	rewritten := first.commit(t, "main", files{"noise": noise(r, 3<<20)})
	if got := c.mustFetch(t, v1alpha1.GitRef{}); got.Commit != rewritten {
		t.Errorf("commit %s, want %s", got.Commit, rewritten)
	}
	if err := c.git.Forget(c.request.Key); err != nil {
		t.Fatal(err)
	}
	if err := fetchSecond(); err != nil {
		t.Errorf("with room for it: %v", err)
	}
}

// TestAPartOfTheSpace shows that what a part takes counts for the whole too, and that a part keeps to its own limit.
func TestAPartOfTheSpace(t *testing.T) {
	whole := &source.Space{Limit: 10}
	part := &source.Space{Limit: 5, Of: whole}
	var full *source.SpaceError
	if err := part.Take(6); !errors.As(err, &full) || full.Limit != 5 {
		t.Errorf("6 of 5: %v", err)
	}
	if err := part.Take(5); err != nil {
		t.Errorf("5 of 5: %v", err)
	}
	if err := whole.Take(6); !errors.As(err, &full) || full.Limit != 10 {
		t.Errorf("11 of 10: %v", err)
	}
	part.Add(-5)
	if err := whole.Take(10); err != nil {
		t.Errorf("10 of 10: %v", err)
	}
	if err := part.Take(1); !errors.As(err, &full) || full.Limit != 10 {
		t.Errorf("a part of a full space: %v", err)
	}
}
