package source_test

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/source"
)

// limitFiles prevents this process from writing larger files. A write beyond the limit fails as on a full disk: the
// SIGXFSZ that comes with it does not terminate Go's runtime.
func limitFiles(t *testing.T, bytes uint64) {
	t.Helper()
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: bytes, Max: unix.RLIM_INFINITY}); err != nil {
		t.Fatal(err)
	}
}

// A disk that fills up, at any write, is an error of the store. Earlier fetches can still be read, nothing is left
// behind, and the next fetch succeeds.
func TestFetchOnAFullDisk(t *testing.T) {
	if !isChild(t) {
		child(t)
		return
	}
	const never = uint64(unix.RLIM_INFINITY)
	h := newHost(t)
	want := map[string]string{}
	for i := range 200 {
		want[fmt.Sprintf("nodes/%03d.yaml", i)] = fmt.Sprint(i)
	}
	first := h.commit(t, "main", want)
	r := newNoise()
	c := newClient(t, h.url, source.Options{})
	// The pack has about 12 kB and its index about 7 kB; both exceed the first limits, later ones only the index or an
	// increment does.
	for _, room := range []uint64{0, 1, 100, 4 << 10} {
		limitFiles(t, room)
		wantFull(t, c)
		if left := c.stores(t); len(left) != 0 {
			t.Errorf("with %d bytes: left on disk: %v", room, left)
		}
		limitFiles(t, never)
	}
	s := c.mustFetch(t, v1alpha1.GitRef{})
	wantContent(t, s, first, want)
	// For the third, the pack fits and the index does not.
	for i, room := range []uint64{0, 100, 1100, 3000} {
		name := fmt.Sprintf("more/%d.yaml", i)
		want[name] = noise(r, 1+i%2*40_000)
		commit := h.commit(t, "main", files{name: want[name]})
		limitFiles(t, room)
		wantFull(t, c)
		wantOneStore(t, c)
		if data := content(t, s); len(data) != 200 {
			t.Errorf("with %d bytes: %d files of the last snapshot", room, len(data))
		}
		limitFiles(t, never)
		wantContent(t, c.mustFetch(t, v1alpha1.GitRef{}), commit, want)
		wantOneStore(t, c)
	}
}

func wantFull(t *testing.T, c *client) {
	t.Helper()
	_, err := c.fetch(t, v1alpha1.GitRef{})
	if !as[*source.StoreError](err) || !strings.Contains(err.Error(), "file too large") || !strings.Contains(err.Error(), "volume is full") {
		t.Fatalf("error %v, want a StoreError", err)
	}
}
