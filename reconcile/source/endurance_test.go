package source_test

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/source"
)

var fetches = flag.Int("fetches", 1000, "how many commits TestManyFetches fetches, one by one; 200 with -short or -race")

// A store with endless fetches grows neither on disk nor in memory.
func TestManyFetches(t *testing.T) {
	n := *fetches
	if testing.Short() || raced {
		n = min(n, 200)
	}
	h := newHost(t)
	r := newNoise()
	tip := files{}
	for i := range 200 {
		tip[fmt.Sprintf("nodes/%02d/%03d.yaml", i%10, i)] = noise(r, 1200)
	}
	h.commit(t, "main", tip)
	var stream strings.Builder
	stream.WriteString(h.stream("later", "from refs/heads/main^0\n", files{"count.yaml": "0"}))
	for i := range n {
		stream.WriteString(h.stream("later", "", files{
			"count.yaml": fmt.Sprint(i), fmt.Sprintf("nodes/%02d/%03d.yaml", i%10, i%200): noise(r, 1200),
		}))
	}
	git(t, h.repository, stream.String(), "fast-import", "--quiet")
	commits := strings.Fields(git(t, h.repository, "", "rev-list", "--reverse", "main..later"))[1:]

	c := newClient(t, h.url, source.Options{})
	c.mustFetch(t, v1alpha1.GitRef{})
	size := onDisk(t, c.dir)
	var largest, resident, heap int64
	for i, commit := range commits {
		h.point(t, "refs/heads/main", commit)
		s := c.mustFetch(t, v1alpha1.GitRef{})
		if count, err := fs.ReadFile(s.FS, "count.yaml"); err != nil || string(count) != fmt.Sprint(i) {
			t.Fatalf("fetch %d: count.yaml is %q, %v", i, count, err)
		}
		largest = max(largest, onDisk(t, c.dir))
		if i == len(commits)/4 {
			resident, heap = memory(t)
		}
	}
	wantOneStore(t, c)
	residentNow, heapNow := memory(t)
	t.Logf("%d fetches, %d packs: tip %d kB, largest store %d kB, RSS %d -> %d kB, heap %d -> %d kB",
		len(commits), h.packs.Load(), size>>10, largest>>10, resident>>10, residentNow>>10, heap>>10, heapNow>>10)
	if largest > 3*size {
		t.Errorf("the store grew to %d bytes, more than 3 times the tip of %d", largest, size)
	}
	if grown := heapNow - heap; grown > 4<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	if grown := residentNow - resident; grown > 16<<20 && !raced {
		t.Errorf("RSS grew by %d bytes", grown)
	}
}

func onDisk(t *testing.T, dir string) (n int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		i, err := d.Info()
		if err == nil {
			n += i.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// memory returns the process's resident memory and its live heap, in bytes.
func memory(t *testing.T) (resident, heap int64) {
	t.Helper()
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip("this system does not tell what is resident")
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	if _, err := fmt.Sscan(rest, &resident); err != nil {
		t.Fatal(err)
	}
	return resident << 10, int64(m.HeapAlloc)
}
