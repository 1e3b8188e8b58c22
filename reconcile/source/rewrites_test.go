package source_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/source"
)

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

// wantOneStore verifies that nothing is left of replaced stores or failed fetches.
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

// What a commit restores from before the clone is sent again, although the host knows that an ancestor of our tip had
// it: the request says where our history is cut off.
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
