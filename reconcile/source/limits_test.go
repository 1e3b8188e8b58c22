package source_test

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/source"
)

func newNoise() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

// noise returns text that does not compress.
func noise(r *rand.Rand, n int) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-"
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[r.IntN(len(letters))]
	}
	return string(b)
}

func wantLimit(t *testing.T, err error, what string) {
	t.Helper()
	var limit *source.LimitError
	if !errors.As(err, &limit) || !strings.Contains(limit.What, what) {
		t.Fatalf("error %v, want a LimitError of %s", err, what)
	}
}

func TestFetchLimitsTheRepository(t *testing.T) {
	h := newHost(t)
	r := newNoise()
	commit := h.commit(t, "main", files{"a.yaml": "a"})
	c := newClient(t, h.url, source.Options{MaxBytes: 3 << 20})
	c.mustFetch(t, v1alpha1.GitRef{})
	h.commit(t, "main", files{"noise": noise(r, 8<<20)})
	_, err := c.fetch(t, v1alpha1.GitRef{})
	wantLimit(t, err, "the repository")
	wantOneStore(t, c)
	asked := h.packs.Load()
	_, err = c.fetch(t, v1alpha1.GitRef{})
	wantLimit(t, err, "the repository")
	if h.packs.Load() != asked {
		t.Error("a commit that is too large was fetched again")
	}
	// The next commit works again.
	git(t, h.repository, "", "update-ref", "refs/heads/main", commit)
	wantContent(t, c.mustFetch(t, v1alpha1.GitRef{}), commit, map[string]string{"a.yaml": "a"})
	h.commit(t, "main", files{"noise": noise(r, 8<<20)})
	healed := h.commit(t, "main", files{"noise": ""})
	wantContent(t, c.mustFetch(t, v1alpha1.GitRef{}), healed, map[string]string{"a.yaml": "a"})
}

// A file of 100 MB that compresses well is refused before it is in memory.
func TestFetchLimitsAnObjectAndNamesIt(t *testing.T) {
	const large = 100 << 20
	t.Run("in an increment", func(t *testing.T) {
		h := newHost(t)
		h.commit(t, "main", files{"nodes/eu/a.yaml": "a"})
		c := newClient(t, h.url, source.Options{MaxObjectBytes: 1 << 20})
		c.mustFetch(t, v1alpha1.GitRef{})
		h.commit(t, "main", files{"nodes/eu/huge.bin": strings.Repeat("0", 2<<20)})
		_, err := c.fetch(t, v1alpha1.GitRef{})
		wantLimit(t, err, "the file nodes/eu/huge.bin")
		if h.packs.Load() != 3 {
			t.Errorf("%d packs fetched, want the clone, the increment and a clone of the tip alone", h.packs.Load())
		}
		wantOneStore(t, c)
		// A commit that removes the file works again: commits in between are not fetched.
		healed := h.commit(t, "main", files{"nodes/eu/huge.bin": "", "nodes/eu/a.yaml": "aa"})
		wantContent(t, c.mustFetch(t, v1alpha1.GitRef{}), healed, map[string]string{"nodes/eu/a.yaml": "aa"})
		wantOneStore(t, c)
	})
	t.Run("in a clone", func(t *testing.T) {
		h := newHost(t)
		h.commit(t, "main", files{"nodes/eu/huge.bin": strings.Repeat("0", large)})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := newClient(t, h.url, source.Options{}).fetch(t, v1alpha1.GitRef{})
		runtime.ReadMemStats(&after)
		wantLimit(t, err, "the file nodes/eu/huge.bin")
		if taken := after.TotalAlloc - before.TotalAlloc; taken > large/4 {
			t.Errorf("%d bytes of memory were taken to refuse it", taken)
		}
	})
	t.Run("all together", func(t *testing.T) {
		h := newHost(t)
		f := files{}
		for _, name := range strings.Split("abcdefghij", "") {
			f[name] = strings.Repeat(name, 2<<20)
		}
		h.commit(t, "main", f)
		_, err := newClient(t, h.url, source.Options{MaxBytes: 1 << 20}).fetch(t, v1alpha1.GitRef{})
		wantLimit(t, err, "the content")
	})
}
