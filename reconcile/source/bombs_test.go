package source_test

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

// commitTree points a branch at a new commit of a tree.
func (h *host) commitTree(t *testing.T, branch, tree string) {
	t.Helper()
	commit := strings.TrimSpace(git(t, h.repository, "", "-c", "user.name=T", "-c", "user.email=t@example.com", "commit-tree", "-m", "bomb", tree))
	git(t, h.repository, "", "update-ref", "refs/heads/"+branch, commit)
}

// mktree creates a tree from entries.
func (h *host) mktree(t *testing.T, entries string) string {
	t.Helper()
	return strings.TrimSpace(git(t, h.repository, entries, "mktree"))
}

func (h *host) blob(t *testing.T, text string) string {
	t.Helper()
	return strings.TrimSpace(git(t, h.repository, text, "hash-object", "-w", "--stdin"))
}

// countedFolders counts the folders that are listed.
type countedFolders struct {
	fs.FS
	listed atomic.Int64
}

func (c *countedFolders) ReadDir(name string) ([]fs.DirEntry, error) {
	c.listed.Add(1)
	return fs.ReadDir(c.FS, name)
}

// TestATreeThatDoubles shows that a render lists no more than its limit of folders of a tree whose thirty objects
// expand to a billion folders.
func TestATreeThatDoubles(t *testing.T) {
	h := newHost(t)
	tree := h.mktree(t, "100644 blob "+h.blob(t, poolFile)+"\tpool.yaml\n")
	for range 30 {
		tree = h.mktree(t, fmt.Sprintf("040000 tree %s\ta\n040000 tree %s\tb\n", tree, tree))
	}
	root := h.mktree(t, fmt.Sprintf("040000 tree %s\tnodes\n100644 blob %s\tplumbline.yaml\n", tree, h.blob(t, karpenterFile)))
	h.commitTree(t, "main", root)
	s := newClient(t, h.url, source.Options{}).mustFetch(t, v1alpha1.GitRef{})
	folders := &countedFolders{FS: s.FS}
	s.FS = folders
	karpenter, err := render.ReadKarpenter(*s, ".")
	if err != nil {
		t.Fatal(err)
	}
	_, err = render.Render(t.Context(), *s, ".", karpenter, nil)
	var refused render.Errors
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "too much to render") {
		t.Errorf("error %v, want too much to render", err)
	}
	if listed, limit := folders.listed.Load(), int64(render.DefaultLimits().Folders); listed > limit+1 || listed < limit/2 {
		t.Errorf("%d folders were listed, and a render may list %d", listed, limit)
	}
}

// TestALongMessageStopsNothing shows that a very long message blocks neither its own commit nor later ones.
func TestALongMessageStopsNothing(t *testing.T) {
	h := newHost(t)
	first := h.commit(t, "main", files{"a.yaml": "1"})
	tree := strings.TrimSpace(git(t, h.repository, "", "rev-parse", first+"^{tree}"))
	message := "subject\n\n" + strings.Repeat("every word of it\n", 200_000)
	long := strings.TrimSpace(git(t, h.repository, message, "-c", "user.name=T", "-c", "user.email=t@example.com", "commit-tree", "-p", first, "-F", "-", tree))
	git(t, h.repository, "", "update-ref", "refs/heads/main", long)
	c := newClient(t, h.url, source.Options{})
	if s := c.mustFetch(t, v1alpha1.GitRef{}); s.Commit != long {
		t.Errorf("fetched %s, want %s", s.Commit, long)
	}
	next := h.commit(t, "main", files{"a.yaml": "2"})
	s := c.mustFetch(t, v1alpha1.GitRef{})
	got, err := c.since(t, first, inputsOf(t, s, "a.yaml"), 50)
	if err != nil || len(got) != 1 || got[0] != next {
		t.Errorf("since %s: %v, %v; want %s", first, got, err, next)
	}
}

// TestFetchLimitsTheNumberOfObjects shows that many tiny objects are refused, because each takes memory.
func TestFetchLimitsTheNumberOfObjects(t *testing.T) {
	h := newHost(t)
	many := files{}
	for i := range 300 {
		many[fmt.Sprintf("nodes/%d.yaml", i)] = fmt.Sprint(i)
	}
	h.commit(t, "main", many)
	c := newClient(t, h.url, source.Options{MaxObjects: 200})
	_, err := c.fetch(t, v1alpha1.GitRef{})
	wantLimit(t, err, "the number of objects of the repository")
	if !strings.Contains(err.Error(), "200 objects") {
		t.Errorf("error %v, want the unit", err)
	}
	asked := h.packs.Load()
	if _, err = c.fetch(t, v1alpha1.GitRef{}); err == nil || h.packs.Load() != asked {
		t.Errorf("it was fetched again: %v", err)
	}
}

// TestFetchLimitsListings: a folder with one file under a million names has a listing of tens of megabytes, which
// compresses well.
func TestFetchLimitsListings(t *testing.T) {
	listing := func(h *host, from, to int) string {
		var entries strings.Builder
		blob := h.blob(t, "x")
		for i := from; i < to; i++ {
			fmt.Fprintf(&entries, "100644 blob %s\t%07d%s\n", blob, i, strings.Repeat("x", 20))
		}
		return h.mktree(t, entries.String())
	}
	t.Run("of one folder", func(t *testing.T) {
		h := newHost(t)
		h.commitTree(t, "main", listing(h, 0, 200_000))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := newClient(t, h.url, source.Options{}).fetch(t, v1alpha1.GitRef{})
		runtime.ReadMemStats(&after)
		wantLimit(t, err, "the listing of a folder")
		if taken := after.TotalAlloc - before.TotalAlloc; taken > 256<<20 {
			t.Errorf("%d bytes were taken to refuse it", taken)
		}
	})
	t.Run("of all together", func(t *testing.T) {
		h := newHost(t)
		var folders strings.Builder
		for i := range 5 {
			fmt.Fprintf(&folders, "040000 tree %s\t%d\n", listing(h, i, 110_000+i), i)
		}
		h.commitTree(t, "main", h.mktree(t, folders.String()))
		_, err := newClient(t, h.url, source.Options{}).fetch(t, v1alpha1.GitRef{})
		wantLimit(t, err, "the number of files and folders")
	})
}
