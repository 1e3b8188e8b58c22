package source

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fluxcd/pkg/http/fetch"
	fluxtar "github.com/fluxcd/pkg/tar"

	"github.com/plumbline-dev/plumbline/render"
)

// FluxOptions configures a FluxStore. Limits that are zero default to those of Options.
type FluxOptions struct {
	// Dir is a folder for this store only: what an earlier process left there is removed.
	Dir string
	// MaxBytes limits the size of one artifact, packed and unpacked; MaxFiles limits its files and folders.
	MaxBytes int64
	MaxFiles int
	// Space limits all artifacts together, and everything else that shares it. If nil, there is no such limit.
	Space *Space
}

// FluxStore keeps artifacts on disk, each while a NodeSync uses it. Its methods are safe for concurrent use.
type FluxStore struct {
	options FluxOptions

	// fetching is held while an artifact is fetched, so that fetches run one at a time.
	fetching chan struct{}
	mu       sync.Mutex
	made     int
	trees    map[string]*keptArtifact
	holds    map[string]artifactHold
}

// keptArtifact is an artifact on disk, by its digest, and the number of keys that use it.
type keptArtifact struct {
	dir   string
	tree  *artifactTree
	holds int
	bytes int64 // counted in Space
}

// artifactHold is the artifact that a key uses, and when Flux created its earlier ones, by commit.
type artifactHold struct {
	digest  string
	updated time.Time
	before  map[string]time.Time
}

// NewFluxStore returns a FluxStore that has not accessed the disk yet.
func NewFluxStore(o FluxOptions) *FluxStore {
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.MaxFiles == 0 {
		o.MaxFiles = DefaultMaxObjects
	}
	return &FluxStore{options: o, fetching: make(chan struct{}, 1), trees: map[string]*keptArtifact{}, holds: map[string]artifactHold{}}
}

// Fetch returns an artifact as a Snapshot, and when the API server was queried for it. If Flux cannot create a newer
// artifact, it returns that error together with the Snapshot of the existing one.
//
// The error is the context's, an *ArtifactError or a *LimitError.
func (s *FluxStore) Fetch(ctx context.Context, key string, a Artifact) (*render.Snapshot, time.Time, error) {
	select {
	case s.fetching <- struct{}{}:
		defer func() { <-s.fetching }()
	case <-ctx.Done():
		return nil, a.Asked, ctx.Err()
	}
	of, err := s.settle(key, a, nil)
	if of == nil && err == nil {
		counted := s.uncount(key)
		if of, err = s.make(ctx, a); err == nil {
			_, err = s.settle(key, a, of)
		} else {
			s.count(key, counted)
		}
	}
	if err != nil {
		return nil, a.Asked, err
	}
	return &render.Snapshot{Revision: a.Revision, Commit: render.CommitOf(a.Revision), FS: of.tree}, a.Asked, a.Unready
}

// make fetches an artifact into a new folder.
func (s *FluxStore) make(ctx context.Context, a Artifact) (*keptArtifact, error) {
	if s.made == 0 {
		if err := os.RemoveAll(s.options.Dir); err != nil {
			return nil, fmt.Errorf("remove what an earlier process has left: %w", err)
		}
	}
	s.made++
	dir := filepath.Join(s.options.Dir, fmt.Sprint(s.made))
	err := os.MkdirAll(filepath.Join(dir, "files"), 0o700)
	var bytes int64
	if err == nil {
		bytes, err = s.unpack(ctx, dir, a)
	}
	var of *artifactTree
	if err == nil {
		of, err = newArtifactTree(filepath.Join(dir, "files"), a.Revision)
	}
	if err != nil {
		s.options.Space.Add(-bytes)
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &keptArtifact{dir: dir, tree: of, bytes: bytes}, nil
}

// packedArtifact is the file name of an artifact as it was fetched.
const packedArtifact = "artifact.tar.gz"

// unpack fetches an artifact, verifies its digest, and unpacks it. It skips symlinks, which source-controller never
// packs. The returned bytes have been reserved in the Space, even with an error.
func (s *FluxStore) unpack(ctx context.Context, dir string, a Artifact) (bytes int64, err error) {
	fetcher := fetch.New(fetch.WithMaxDownloadSize(int(s.options.MaxBytes)), fetch.WithFileName(packedArtifact))
	if err := fetcher.FetchWithContext(ctx, a.URL, a.Digest, dir); err != nil {
		if ctx.Err() != nil {
			return 0, &ArtifactError{
				Of:      a.Of,
				Problem: "has an artifact that was not downloaded within spec.timeout: see whether source-controller can be reached from here",
				Err:     ctx.Err(),
			}
		}
		return 0, &ArtifactError{Of: a.Of, Problem: "has an artifact that cannot be fetched", Err: err}
	}
	name := filepath.Join(dir, packedArtifact)
	size, err := s.weigh(a, name)
	if err == nil {
		err = s.options.Space.Take(size)
	}
	if err != nil {
		return 0, err
	}
	file, err := os.Open(name)
	if err != nil {
		return size, err
	}
	err = fluxtar.Untar(file, filepath.Join(dir, "files"), fluxtar.WithMaxUntarSize(int(s.options.MaxBytes)), fluxtar.WithSkipSymlinks())
	if err != nil {
		err = &ArtifactError{Of: a.Of, Problem: "has an artifact that cannot be unpacked", Err: err}
	}
	return size, errors.Join(err, file.Close(), os.Remove(name))
}

// uncount stops counting the artifact that a key uses, unless another key uses it too, because a new artifact replaces
// it. It returns the size.
func (s *FluxStore) uncount(key string) (bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of := s.trees[s.holds[key].digest]; of != nil && of.holds == 1 {
		bytes, of.bytes = of.bytes, 0
		s.options.Space.Add(-bytes)
	}
	return bytes
}

// count reverts uncount.
func (s *FluxStore) count(key string, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of := s.trees[s.holds[key].digest]; of != nil {
		of.bytes += bytes
		s.options.Space.Add(bytes)
	}
}

// weigh returns the unpacked size of an artifact. It returns an error for one that exceeds the limits, before anything
// is written.
func (s *FluxStore) weigh(a Artifact, name string) (bytes int64, err error) {
	file, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }() // opened for reading
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return 0, &ArtifactError{Of: a.Of, Problem: "has an artifact that is no .tar.gz", Err: err}
	}
	files := 0
	for from := tar.NewReader(io.LimitReader(unzipped, 2*s.options.MaxBytes)); ; {
		entry, err := from.Next()
		switch {
		case errors.Is(err, io.EOF):
			return bytes, nil
		case err != nil:
			return 0, &ArtifactError{Of: a.Of, Problem: "has an artifact that cannot be unpacked", Err: err}
		}
		files++
		if bytes += entry.Size; bytes > s.options.MaxBytes {
			return 0, &LimitError{What: "the artifact of " + a.Of, Limit: s.options.MaxBytes, Flag: StoreLimitFlag}
		}
		if files > s.options.MaxFiles {
			return 0, &LimitError{What: "the artifact of " + a.Of, Limit: int64(s.options.MaxFiles), Unit: "files"}
		}
	}
}

// settle makes a key use an artifact, and removes what no key uses any more. fresh is the artifact if it was just
// fetched; if fresh is nil and the artifact is not on disk, settle returns nil.
func (s *FluxStore) settle(key string, a Artifact, fresh *keptArtifact) (*keptArtifact, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := cmp.Or(fresh, s.trees[a.Digest])
	if of == nil {
		return nil, nil
	}
	was, held := s.holds[key]
	now := artifactHold{digest: a.Digest, updated: a.Updated, before: was.before}
	if now.before == nil || len(now.before) > maxArtifacts {
		now.before = map[string]time.Time{}
	}
	maps.Copy(now.before, a.Before)
	now.before[render.CommitOf(a.Revision)] = a.Updated
	s.holds[key], s.trees[a.Digest] = now, of
	if held && was.digest == a.Digest {
		return of, nil
	}
	of.holds++
	if !held {
		return of, nil
	}
	return of, s.release(was.digest)
}

// maxArtifacts limits the artifacts whose creation time is remembered.
const maxArtifacts = 100

// release removes one user of an artifact, and the artifact with its last user.
func (s *FluxStore) release(digest string) error {
	of := s.trees[digest]
	if of.holds--; of.holds > 0 {
		return nil
	}
	delete(s.trees, digest)
	s.options.Space.Add(-of.bytes)
	of.tree.gone.Store(true)
	return os.RemoveAll(of.dir)
}

// Forget drops what a key uses.
func (s *FluxStore) Forget(key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, held := s.holds[key]
	if !held {
		return nil
	}
	delete(s.holds, key)
	return s.release(was.digest)
}

// Holds reports whether a key uses an artifact.
func (s *FluxStore) Holds(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, held := s.holds[key]
	return held
}

// Order compares a key's artifact with an earlier one by when Flux created them: the history of the repository is only
// available to Flux.
func (s *FluxStore) Order(key, commit string) Order {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := s.holds[key]
	switch then, known := is.before[commit]; {
	case !known:
		return OrderUnknown
	case then.After(is.updated):
		return OrderOlder
	}
	return OrderNewer
}

// artifactFiles are the files of a folder on disk.
type artifactFiles interface {
	fs.ReadDirFS
	fs.ReadFileFS
	fs.StatFS
	fs.ReadLinkFS
	render.Identified
}

// artifactTree is an unpacked artifact, whose content does not change. After another one replaces it, every read
// returns a *StaleError: files being removed from disk must not look removed from the source.
type artifactTree struct {
	artifactFiles
	revision string
	gone     atomic.Bool

	mu         sync.Mutex
	identities map[string]string
}

func newArtifactTree(dir, revision string) (*artifactTree, error) {
	folder, err := Folder(dir)
	if err != nil {
		return nil, err
	}
	of, is := folder.FS.(artifactFiles)
	if !is {
		return nil, fmt.Errorf("read %s: its file system can do less than is needed", dir)
	}
	return &artifactTree{artifactFiles: of, revision: revision, identities: map[string]string{}}, nil
}

// current returns the error of a read that has just been made, or a *StaleError if the artifact was replaced.
func (t *artifactTree) current(err error) error {
	if t.gone.Load() {
		return &StaleError{Revision: t.revision}
	}
	return err
}

// Open implements fs.FS.
func (t *artifactTree) Open(name string) (fs.File, error) {
	file, err := t.artifactFiles.Open(name)
	return file, t.current(err)
}

// ReadFile implements fs.ReadFileFS.
func (t *artifactTree) ReadFile(name string) ([]byte, error) {
	data, err := t.artifactFiles.ReadFile(name)
	return data, t.current(err)
}

// ReadDir implements fs.ReadDirFS.
func (t *artifactTree) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := t.artifactFiles.ReadDir(name)
	return entries, t.current(err)
}

// Stat implements fs.StatFS.
func (t *artifactTree) Stat(name string) (fs.FileInfo, error) {
	info, err := t.artifactFiles.Stat(name)
	return info, t.current(err)
}

// Lstat implements fs.ReadLinkFS.
func (t *artifactTree) Lstat(name string) (fs.FileInfo, error) {
	info, err := t.artifactFiles.Lstat(name)
	return info, t.current(err)
}

// ReadLink implements fs.ReadLinkFS.
func (t *artifactTree) ReadLink(name string) (string, error) {
	target, err := t.artifactFiles.ReadLink(name)
	return target, t.current(err)
}

// Identity implements render.Identified. Each identity is computed once.
func (t *artifactTree) Identity(name string) (string, error) {
	t.mu.Lock()
	known, is := t.identities[name]
	t.mu.Unlock()
	if is {
		return known, t.current(nil)
	}
	identity, err := t.artifactFiles.Identity(name)
	if err = t.current(err); err == nil {
		t.mu.Lock()
		t.identities[name] = identity
		t.mu.Unlock()
	}
	return identity, err
}
