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

// FluxOptions are those of a FluxStore. Zero limits are those of Options.
type FluxOptions struct {
	// Dir is a folder of its own: what an earlier process has left there is removed.
	Dir string
	// MaxBytes bounds one artifact, packed and unpacked; MaxFiles how many files and folders it has.
	MaxBytes int64
	MaxFiles int
	// Space bounds all artifacts together, and what else shares it; nil does not.
	Space *Space
}

// FluxStore has artifacts on disk, each for as long as a NodeSync goes by it. Its methods may be called at the same time.
type FluxStore struct {
	options FluxOptions

	// fetching is held while an artifact is fetched: one at a time.
	fetching chan struct{}
	mu       sync.Mutex
	made     int
	trees    map[string]*keptArtifact
	holds    map[string]artifactHold
}

// keptArtifact is an artifact on disk, by its digest, and how many go by it.
type keptArtifact struct {
	dir   string
	tree  *artifactTree
	holds int
	bytes int64 // that count in Space
}

// artifactHold is what one goes by, and when Flux made what it went by before, by commit.
type artifactHold struct {
	digest  string
	updated time.Time
	before  map[string]time.Time
}

// NewFluxStore returns a FluxStore that has not touched the disk yet.
func NewFluxStore(o FluxOptions) *FluxStore {
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.MaxFiles == 0 {
		o.MaxFiles = DefaultMaxObjects
	}
	return &FluxStore{options: o, fetching: make(chan struct{}, 1), trees: map[string]*keptArtifact{}, holds: map[string]artifactHold{}}
}

// Fetch returns an artifact as a Snapshot, and when it was asked for. Where Flux cannot make a newer artifact,
// the error says so beside the Snapshot of the one that there is.
//
// The error is the context's, a *ArtifactError or a *LimitError.
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

// make fetches an artifact into a folder of its own.
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

// packedArtifact is the name of an artifact as it was fetched.
const packedArtifact = "artifact.tar.gz"

// unpack fetches an artifact, verifies its digest, and unpacks it. Symlinks, which source-controller puts into none, are
// left out. The bytes that it returns have been taken from the Space, also with an error.
func (s *FluxStore) unpack(ctx context.Context, dir string, a Artifact) (bytes int64, err error) {
	fetcher := fetch.New(fetch.WithMaxDownloadSize(int(s.options.MaxBytes)), fetch.WithFileName(packedArtifact))
	if err := fetcher.FetchWithContext(ctx, a.URL, a.Digest, dir); err != nil {
		if ctx.Err() != nil {
			return 0, &ArtifactError{Of: a.Of, Problem: "has an artifact that was not downloaded within spec.timeout: see whether source-controller can be reached from here", Err: ctx.Err()}
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

// uncount stops counting the artifact that a key goes by, if no other one does, and returns its size: another artifact takes
// its place.
func (s *FluxStore) uncount(key string) (bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of := s.trees[s.holds[key].digest]; of != nil && of.holds == 1 {
		bytes, of.bytes = of.bytes, 0
		s.options.Space.Add(-bytes)
	}
	return bytes
}

// count takes uncount back.
func (s *FluxStore) count(key string, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if of := s.trees[s.holds[key].digest]; of != nil {
		of.bytes += bytes
		s.options.Space.Add(bytes)
	}
}

// weigh is the size of an artifact once it is unpacked. It refuses one that is larger than a disk should take, before anything
// is written of it.
func (s *FluxStore) weigh(a Artifact, name string) (bytes int64, err error) {
	file, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }() // it was read
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

// settle has a key go by an artifact, and removes what nobody goes by any more. fresh is the artifact where it was
// made just now; without it nil is returned where the artifact is not there.
func (s *FluxStore) settle(key string, a Artifact, fresh *keptArtifact) (*keptArtifact, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := cmp.Or(fresh, s.trees[a.Digest])
	if of == nil {
		return nil, nil
	}
	was, held := s.holds[key]
	now := artifactHold{digest: a.Digest, updated: a.Updated, before: was.before}
	if now.before == nil || len(now.before) > mostArtifacts {
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

// mostArtifacts is of how many artifacts it is known when they were made.
const mostArtifacts = 100

// release has one less go by an artifact.
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

// Forget drops what a key goes by.
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

// Holds reports whether a key goes by an artifact.
func (s *FluxStore) Holds(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, held := s.holds[key]
	return held
}

// Order says how what a key goes by stands to what it went by before, by when Flux has made them: the history of
// the repository is Flux's.
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

// artifactFiles are those of a folder on disk.
type artifactFiles interface {
	fs.ReadDirFS
	fs.ReadFileFS
	fs.StatFS
	fs.ReadLinkFS
	render.Identified
}

// artifactTree is an unpacked artifact, whose content does not change. Once another one has taken its place every
// read is a *StaleError: what is being removed from disk has not left the source.
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

// current is the error of a read, which is made before it is asked.
func (t *artifactTree) current(err error) error {
	if t.gone.Load() {
		return &StaleError{Revision: t.revision}
	}
	return err
}

// Open is that of fs.FS.
func (t *artifactTree) Open(name string) (fs.File, error) {
	file, err := t.artifactFiles.Open(name)
	return file, t.current(err)
}

// ReadFile is that of fs.ReadFileFS.
func (t *artifactTree) ReadFile(name string) ([]byte, error) {
	data, err := t.artifactFiles.ReadFile(name)
	return data, t.current(err)
}

// ReadDir is that of fs.ReadDirFS.
func (t *artifactTree) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := t.artifactFiles.ReadDir(name)
	return entries, t.current(err)
}

// Stat is that of fs.StatFS.
func (t *artifactTree) Stat(name string) (fs.FileInfo, error) {
	info, err := t.artifactFiles.Stat(name)
	return info, t.current(err)
}

// Lstat is that of fs.ReadLinkFS.
func (t *artifactTree) Lstat(name string) (fs.FileInfo, error) {
	info, err := t.artifactFiles.Lstat(name)
	return info, t.current(err)
}

// ReadLink is that of fs.ReadLinkFS.
func (t *artifactTree) ReadLink(name string) (string, error) {
	target, err := t.artifactFiles.ReadLink(name)
	return target, t.current(err)
}

// Identity is that of render.Identified. Each is found out once.
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
