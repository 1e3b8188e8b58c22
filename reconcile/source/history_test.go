package source_test

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/source"
)

const (
	// commitsBefore is how long the history is; all but the last hundred may
	// hold a file of largeBlob that the next commit takes out again.
	commitsBefore = 10_000
	largeBlob     = 1 << 20
	// pushes come after the first fetch.
	pushes = 20
	// tipFiles of tipFile bytes are in every commit.
	tipFiles, tipFile = 200, 1200
	// largestRSS is what a fetch may take.
	largestRSS = 250 << 20
)

var fetchURL = flag.String("fetch-url", "", "what the child of TestFetchOfALongHistory fetches")

// A repository of 10,000 commits and a large history is fetched as if it had its
// tip alone: little memory, and no more than three times the tip on disk, also
// after pushes and after the history was asked about.
func TestFetchOfALongHistory(t *testing.T) {
	if isChild(t) {
		fetchLongHistory(t)
		return
	}
	large := 40
	if _, full := os.LookupEnv("PLUMBLINE_FULL"); full {
		large = 1024
	}
	h := newHost(t)
	commits := h.longHistory(t, large)
	t.Logf("the host has %d MB", onDisk(t, h.repository)>>20)
	inner, asked := h.handler, 0
	h.mu.Lock()
	h.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		if strings.HasSuffix(r.URL.Path, "/info/refs") && asked < len(commits) {
			h.point(t, "refs/heads/main", commits[asked]) // each question finds one more push
			asked++
		}
		h.mu.Unlock()
		inner.ServeHTTP(w, r)
	})
	h.mu.Unlock()
	said := child(t, "-fetch-url="+h.url)
	_, rest, _ := strings.Cut(said, "MEASURED ")
	var resident, disk int64
	if _, err := fmt.Sscan(rest, &resident, &disk); err != nil {
		t.Fatal(err, said)
	}
	t.Logf("RSS at most %d MB, on disk at most %d kB", resident>>20, disk>>10)
	if resident > largestRSS && !raced {
		t.Errorf("%d bytes were resident, more than %d", resident, largestRSS)
	}
	if tip := int64(tipFiles * tipFile * 3 / 4); disk > 3*tip {
		t.Errorf("%d bytes on disk, more than three times the tip of %d", disk, tip)
	}
}

// fetchLongHistory fetches again and again, and says what that took at most.
func fetchLongHistory(t *testing.T) {
	c := newClient(t, *fetchURL, source.Options{})
	s := c.mustFetch(t, v1alpha1.GitRef{})
	disk := onDisk(t, c.dir)
	inputs := inputsOf(t, s, "count.yaml")
	for range pushes {
		before := s.Commit
		s = c.mustFetch(t, v1alpha1.GitRef{})
		if got, err := c.since(t, before, inputs, 50); err != nil || len(got) != 1 || got[0] != s.Commit {
			t.Fatalf("since %s: %v, %v; want %s", before, got, err, s.Commit)
		}
		disk = max(disk, onDisk(t, c.dir))
	}
	// As after a restart: what was applied lies before the clone.
	applied := s.Commit
	if err := c.git.Forget(c.request.Key); err != nil {
		t.Fatal(err)
	}
	s = c.mustFetch(t, v1alpha1.GitRef{})
	if got, err := c.since(t, applied, inputs, 50); err != nil || len(got) != 1 {
		t.Fatalf("since %s: %v, %v; want %s", applied, got, err, s.Commit)
	}
	disk = max(disk, onDisk(t, c.dir))
	fmt.Println("MEASURED", peak(t), disk)
}

// peak is the most that this process ever had resident, in bytes.
func peak(t *testing.T) (kB int64) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip("this system does not tell what was resident")
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	if _, err := fmt.Sscan(rest, &kB); err != nil {
		t.Fatal(err)
	}
	return kB << 10
}

// longHistory makes the commits, and returns those of the last pushes and the
// one before them, the oldest first.
func (h *host) longHistory(t *testing.T, large int) []string {
	t.Helper()
	read, write := io.Pipe()
	cmd := exec.CommandContext(t.Context(), "git", "-c", "core.compression=0", "-c", "fastimport.unpackLimit=0", "fast-import", "--quiet")
	cmd.Dir, cmd.Env, cmd.Stdin = h.repository, environment(), read
	go func() {
		w := bufio.NewWriter(write)
		h.writeHistory(w, large)
		_ = write.CloseWithError(w.Flush())
	}()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git fast-import: %v: %s", err, out)
	}
	newest := strings.Fields(git(t, h.repository, "", "rev-list", "--reverse", "-n", fmt.Sprint(pushes+2), "main"))
	if all := strings.TrimSpace(git(t, h.repository, "", "rev-list", "--count", "main")); all != fmt.Sprint(commitsBefore+1) {
		t.Fatalf("%s commits", all)
	}
	return newest
}

func (h *host) writeHistory(w io.Writer, large int) {
	r := newNoise()
	tip := files{}
	for i := range tipFiles {
		tip[fmt.Sprintf("nodes/%02d/%03d.yaml", i%10, i)] = noise(r, tipFile)
	}
	_, _ = io.WriteString(w, h.stream("main", "", tip))
	for i := range commitsBefore {
		change := files{"count.yaml": fmt.Sprint(i)}
		switch every := (commitsBefore - 100) / large; {
		case i >= every*large:
		case i%every == 0:
			change["large.bin"] = noise(r, largeBlob)
		case i%every == 1:
			change["large.bin"] = ""
		}
		_, _ = io.WriteString(w, h.stream("main", "", change))
	}
}
