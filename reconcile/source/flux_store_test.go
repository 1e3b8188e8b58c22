package source

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// archiveOf is the archive that source-controller creates of files; a name with the suffix @ is a symlink.
func archiveOf(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	to := tar.NewWriter(zipped)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		header := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name])), Typeflag: tar.TypeReg}
		if link, is := strings.CutSuffix(name, "@"); is {
			header = &tar.Header{Name: link, Linkname: files[name], Typeflag: tar.TypeSymlink}
		}
		if err := to.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeReg {
			if _, err := to.Write([]byte(files[name])); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(to.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// sourceController serves artifacts by path, and counts requests.
type sourceController struct {
	*httptest.Server
	serves map[string][]byte
	asked  atomic.Int64
}

func newSourceController(t *testing.T) *sourceController {
	c := &sourceController{serves: map[string][]byte{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.asked.Add(1)
		if data, there := c.serves[r.URL.Path]; there {
			_, _ = w.Write(data)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(c.Close)
	return c
}

// has adds an artifact of a commit to those that the controller serves.
func (c *sourceController) has(t *testing.T, commit string, files map[string]string) Artifact {
	data := archiveOf(t, files)
	path := "/gitrepository/flux-system/fleet/" + commit + ".tar.gz"
	c.serves[path] = data
	return Artifact{
		Of: "GitRepository/flux-system/fleet", URL: c.URL + path, Digest: fmt.Sprintf("sha256:%x", sha256.Sum256(data)), Revision: "main@sha1:" + commit,
	}
}

func newFluxStore(t *testing.T, o FluxOptions) *FluxStore {
	o.Dir = filepath.Join(t.TempDir(), "artifacts")
	return NewFluxStore(o)
}

func TestAnArtifactIsASnapshot(t *testing.T) {
	c, s := newSourceController(t), newFluxStore(t, FluxOptions{})
	a := c.has(t, "c0ffee", map[string]string{"clusters/prod/a.yaml": "kind: NodePool", "README.md": "hello"})
	snapshot, _, err := s.Fetch(t.Context(), "plumbline-system/prod", a)
	if err != nil {
		t.Fatal(err)
	}
	data, err := fs.ReadFile(snapshot.FS, "clusters/prod/a.yaml")
	if err != nil || string(data) != "kind: NodePool" || snapshot.Commit != "c0ffee" || snapshot.Revision != a.Revision {
		t.Errorf("%+v has %q: %v", snapshot, data, err)
	}
	again, _, err := s.Fetch(t.Context(), "plumbline-system/prod", a)
	other, _, err2 := s.Fetch(t.Context(), "plumbline-system/other", a)
	if err := errors.Join(err, err2); err != nil || again.FS != snapshot.FS || other.FS != snapshot.FS || c.asked.Load() != 1 {
		t.Errorf("fetched %d times, %v", c.asked.Load(), err)
	}
}

// TestWhatCannotBeHad shows that an unusable artifact is refused before anything in it is read, leaves nothing on disk,
// and does not affect the previous one.
func TestWhatCannotBeHad(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(c *sourceController, a *Artifact)
		limit FluxOptions
		want  string
	}{
		"another digest":          {spoil: func(_ *sourceController, a *Artifact) { a.Digest = "sha256:" + strings.Repeat("0", 64) }, want: "computed digest doesn't match"},
		"no digest that is known": {spoil: func(_ *sourceController, a *Artifact) { a.Digest = "crc:1" }, want: "digest"},
		"gone":                    {spoil: func(c *sourceController, _ *Artifact) { clear(c.serves) }, want: "file not found"},
		"server away":             {spoil: func(c *sourceController, _ *Artifact) { c.Close() }, want: "cannot be fetched"},
		"too large as packed":     {limit: FluxOptions{MaxBytes: 50}, want: "max download size"},
		"too large":               {limit: FluxOptions{MaxBytes: 4000}, want: "is larger than the limit of 4000 bytes"},
		"too many files":          {limit: FluxOptions{MaxFiles: 1}, want: "is larger than the limit of 1 files"},
		"no archive": {spoil: func(c *sourceController, a *Artifact) {
			data := []byte("hello")
			for path := range c.serves {
				c.serves[path] = data
			}
			a.Digest = fmt.Sprintf("sha256:%x", sha256.Sum256(data))
		}, want: "is no .tar.gz"},
	} {
		t.Run(name, func(t *testing.T) {
			c, s := newSourceController(t), newFluxStore(t, test.limit)
			a := c.has(t, "bad", map[string]string{"a.yaml": strings.Repeat("a", 5000), "b.yaml": "b"})
			if test.spoil != nil {
				test.spoil(c, &a)
			}
			snapshot, _, err := s.Fetch(t.Context(), "plumbline-system/prod", a)
			if snapshot != nil || err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "GitRepository/flux-system/fleet") {
				t.Errorf("%v: %v, want %s", snapshot, err, test.want)
			}
			if left, err := filepath.Glob(filepath.Join(s.options.Dir, "*")); err != nil || len(left) > 0 || s.Holds("plumbline-system/prod") {
				t.Errorf("left: %q, %v", left, err)
			}
		})
	}
}

// TestASymlinkIsLeftOut: source-controller packs no symlinks, and those in an artifact are ignored.
func TestASymlinkIsLeftOut(t *testing.T) {
	c, s := newSourceController(t), newFluxStore(t, FluxOptions{})
	a := c.has(t, "c0ffee", map[string]string{"a.yaml@": "/etc/passwd", "up@": "../../..", "b.yaml": "b"})
	snapshot, _, err := s.Fetch(t.Context(), "plumbline-system/prod", a)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.yaml", "up/etc/passwd"} {
		if data, err := fs.ReadFile(snapshot.FS, name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
}

// TestWhatWasReplacedIsStale shows that files of a replaced artifact do not look removed from the source.
func TestWhatWasReplacedIsStale(t *testing.T) {
	c, s := newSourceController(t), newFluxStore(t, FluxOptions{})
	first, second := c.has(t, "1", map[string]string{"a.yaml": "1"}), c.has(t, "2", map[string]string{"a.yaml": "2"})
	get := func(key string, a Artifact) fs.FS {
		t.Helper()
		snapshot, _, err := s.Fetch(t.Context(), key, a)
		if err != nil {
			t.Fatal(err)
		}
		return snapshot.FS
	}
	before := get("x/prod", first)
	get("x/other", first)
	get("x/prod", second)
	if data, err := fs.ReadFile(before, "a.yaml"); err != nil || string(data) != "1" {
		t.Errorf("another one goes by it still: %q, %v", data, err)
	}
	get("x/other", second)
	var stale *StaleError
	for what, read := range map[string]func() error{
		"open":     func() error { _, err := before.Open("a.yaml"); return err },
		"read":     func() error { _, err := fs.ReadFile(before, "a.yaml"); return err },
		"list":     func() error { _, err := fs.ReadDir(before, "."); return err },
		"stat":     func() error { _, err := fs.Stat(before, "a.yaml"); return err },
		"identity": func() error { _, err := before.(*artifactTree).Identity("a.yaml"); return err },
		"absent":   func() error { _, err := fs.Stat(before, "none"); return err },
	} {
		if err := read(); !errors.As(err, &stale) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := errors.Join(s.Forget("x/prod"), s.Forget("x/other"), s.Forget("x/other")); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(s.options.Dir, "*")); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}

// TestWhatAnEarlierProcessHasLeft shows that it is removed.
func TestWhatAnEarlierProcessHasLeft(t *testing.T) {
	c, s := newSourceController(t), newFluxStore(t, FluxOptions{})
	if err := os.MkdirAll(filepath.Join(s.options.Dir, "1", "files", "old.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	snapshot, _, err := s.Fetch(t.Context(), "x/prod", c.has(t, "1", map[string]string{"a.yaml": "1"}))
	if err != nil {
		t.Fatal(err)
	}
	if entries, err := fs.ReadDir(snapshot.FS, "."); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

// TestWhenArtifactsWereMade shows that artifacts are ordered by creation time.
func TestWhenArtifactsWereMade(t *testing.T) {
	c, s := newSourceController(t), newFluxStore(t, FluxOptions{})
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i, commit := range []string{"1", "2"} {
		a := c.has(t, commit, map[string]string{"a.yaml": commit})
		a.Updated = at.Add(time.Duration(i) * time.Minute)
		if _, _, err := s.Fetch(t.Context(), "x/prod", a); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Order("x/prod", "1"); got != OrderNewer {
		t.Errorf("the second is %q to the first", got)
	}
	restored := c.has(t, "1", map[string]string{"a.yaml": "1"})
	restored.Updated = at
	if _, _, err := s.Fetch(t.Context(), "x/prod", restored); err != nil {
		t.Fatal(err)
	}
	if got := s.Order("x/prod", "2"); got != OrderOlder {
		t.Errorf("the one before is %q to the second", got)
	}
	if got := s.Order("x/prod", "3"); got != OrderUnknown {
		t.Errorf("it is %q to one that never was", got)
	}
}

// TestWhenArtifactsWereMadeBeforeARestart shows that creation times in the status count, and that others are unknown.
func TestWhenArtifactsWereMadeBeforeARestart(t *testing.T) {
	c, s := newSourceController(t), newFluxStore(t, FluxOptions{})
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	a := c.has(t, "2", map[string]string{"a.yaml": "2"})
	a.Updated, a.Before = at, map[string]time.Time{"1": at.Add(-time.Hour), "3": at.Add(time.Hour)}
	either, request := GitOrFlux{Artifacts: s}, Request{Key: "x/prod", Artifact: &a}
	if _, _, err := s.Fetch(t.Context(), "x/prod", a); err != nil {
		t.Fatal(err)
	}
	for commit, want := range map[string]Order{"1": OrderNewer, "2": OrderNewer, "3": OrderOlder} {
		if got, err := either.FindOrder(t.Context(), request, commit); got != want || err != nil || s.Order("x/prod", commit) != want {
			t.Errorf("it is %q to %s, %v", got, commit, err)
		}
	}
	var unknown *HistoryError
	if got, err := either.FindOrder(t.Context(), request, "4"); got != OrderUnknown || !errors.As(err, &unknown) {
		t.Errorf("it is %q to one that nobody knows, %v", got, err)
	}
}
