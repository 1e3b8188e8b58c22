package source

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/go-git/go-git/v5/plumbing/hash"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/plumbline-dev/plumbline/internal/wholefile"
)

const (
	// maxPacks is how many packs a store may have: each is asked in turn.
	maxPacks = 50
	// slack is what a store may grow by beyond twice its clone, so that a tiny
	// repository is not cloned at every other fetch.
	slack = 64 << 10
	// objectCache bounds the objects of a store that are kept in memory.
	objectCache = 2 * cache.MiByte
	// openPacks bounds the file descriptors of a store.
	openPacks = 4
)

// store is the packs of one clone and of the fetches since, in a folder laid
// out as git's objects folder. Snapshots read it while it grows.
type store struct {
	dir string
	// room is for what is indexed, here and in other stores.
	room *room
	// space is what all stores share on disk.
	space *Space

	// What follows belongs to the one fetch at a time.
	shallow []plumbing.Hash            // where the history was cut off
	tip     plumbing.Hash              // the last commit that was shown to be whole
	proven  map[plumbing.Hash]struct{} // trees that are present with all below them
	entries int                        // that the proof of the last commit has looked at
	bytes   int64                      // on disk
	cloned  int64                      // of these, the clone
	view    *tree                      // of tip
	// deepened is what was asked of the history last.
	deepened deepened
	saved    *record // what the folder says of the store

	mu      sync.Mutex             // guards what follows, which Snapshots and Since use
	indexes []*idxfile.MemoryIndex // one for each pack
	objects *filesystem.Storage
	closed  bool
	broken  bool // an object was missed: do not build on this store
}

func newStore(dir string, shared *room, space *Space) (*store, error) {
	s := &store{dir: dir, room: shared, space: space, proven: map[plumbing.Hash]struct{}{}}
	if err := os.MkdirAll(s.packDir(), 0o750); err != nil {
		return nil, &StoreError{Err: err}
	}
	s.reopen()
	return s, nil
}

func (s *store) packDir() string { return filepath.Join(s.dir, "objects", "pack") }

// reopen makes new packs visible, and the objects that they index: go-git lists
// the packs once where it knows that nobody else writes.
func (s *store) reopen(indexes ...*idxfile.MemoryIndex) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.indexes = append(s.indexes, indexes...)
	if s.objects != nil {
		_ = s.objects.Close() // only reading: nothing can be lost
	}
	s.objects = filesystem.NewStorageWithOptions(
		osfs.New(s.dir, osfs.WithBoundOS()),
		cache.NewObjectLRU(objectCache),
		filesystem.Options{ExclusiveAccess: true, MaxOpenDescriptors: openPacks},
	)
}

// grown is whether a new clone would be better than one more pack.
func (s *store) grown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.indexes) >= maxPacks || s.bytes > 2*s.cloned+slack
}

// usable is whether a fetch may build on this store: another process may have emptied the cache folder.
func (s *store) usable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.broken {
		return false
	}
	_, err := os.Stat(s.packDir())
	return err == nil
}

// remove takes the store away. Snapshots that still read it get a *StaleError.
func (s *store) remove() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.space.Add(-s.bytes)
	}
	s.closed = true
	_ = s.objects.Close() // only reading: nothing can be lost
	if err := os.RemoveAll(s.dir); err != nil {
		return &StoreError{Err: err}
	}
	return nil
}

// uncount stops counting what a store has on disk, and returns it: another one takes its place.
func (s *store) uncount() int64 {
	if s == nil {
		return 0
	}
	s.space.Add(-s.bytes)
	bytes := s.bytes
	s.bytes = 0
	return bytes
}

// count takes uncount back.
func (s *store) count(bytes int64) {
	if s == nil {
		return
	}
	s.space.Add(bytes)
	s.bytes += bytes
}

var errStale = errors.New("the store was replaced")

// with gives the objects to one reader at a time: go-git's storage is not made
// for several. An object that is missed marks the store as broken.
func (s *store) with(read func(*filesystem.Storage) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errStale
	}
	err := read(s.objects)
	if err != nil {
		s.broken = true
	}
	return err
}

// has is whether the store has an object. It asks only the indexes: go-git
// would look for a file of its own for each object first.
func (s *store) has(h plumbing.Hash) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, index := range s.indexes {
		if ok, err := index.Contains(h); ok && err == nil {
			return true
		}
	}
	return false
}

// size of a blob in bytes.
func (s *store) size(h plumbing.Hash) (n int64, err error) {
	err = s.with(func(objects *filesystem.Storage) error {
		n, err = objects.EncodedObjectSize(h)
		return err
	})
	return n, err
}

// blob reads a blob whole.
func (s *store) blob(h plumbing.Hash) (data []byte, err error) {
	err = s.with(func(objects *filesystem.Storage) error {
		b, err := object.GetBlob(objects, h)
		if err != nil {
			return err
		}
		r, err := b.Reader()
		if err != nil {
			return err
		}
		data, err = io.ReadAll(r)
		return errors.Join(err, r.Close())
	})
	return data, err
}

// folder reads the entries of a tree.
func (s *store) folder(h plumbing.Hash) (entries []object.TreeEntry, err error) {
	var large *LimitError
	err = s.with(func(objects *filesystem.Storage) error {
		size, err := objects.EncodedObjectSize(h)
		if err != nil {
			return err
		}
		if size > maxTree {
			large = &LimitError{What: "the listing of a folder", Limit: maxTree}
			return nil
		}
		t, err := object.GetTree(objects, h)
		if err != nil {
			return err
		}
		entries = t.Entries
		return nil
	})
	if large != nil {
		return nil, large
	}
	return entries, err
}

// root of a commit's tree.
func (s *store) root(commit plumbing.Hash) (root plumbing.Hash, err error) {
	c, err := s.commit(commit)
	if err != nil {
		return root, err
	}
	return c.TreeHash, nil
}

const (
	// recordName is the file in a store's folder which reports that the process after this
	// one can go on with it.
	recordName = "store.json"
	// unclaimed is how long what an earlier process has left waits for its first fetch.
	unclaimed = 10 * time.Minute
)

// record is what has to be in a store's folder. What it names was there before it, and
// whatever else is there came after it.
type record struct {
	// Of is what the store is of.
	Of string `json:"of"`
	// Tip is the last commit that was shown to be whole, Shallow where the history is cut off.
	Tip     plumbing.Hash   `json:"tip"`
	Shallow []plumbing.Hash `json:"shallow,omitempty"`
	// Cloned is the size of the clone, in bytes.
	Cloned int64 `json:"cloned"`
	// Packs are the names of the packs, without their endings.
	Packs []string `json:"packs"`
}

func (r *record) equal(other *record) bool {
	return other != nil && r.Of == other.Of && r.Tip == other.Tip && r.Cloned == other.Cloned &&
		slices.Equal(r.Shallow, other.Shallow) && slices.Equal(r.Packs, other.Packs)
}

// storeOf says what a store can be used for by another process: the same reference of the same URL,
// within the same limits. Credentials are no part of it, as nothing on disk is made of them:
// who asks gets what the host shows to them, from whichever store.
func (g *Git) storeOf(req Request) (string, error) {
	what, err := json.Marshal(struct {
		URL    string
		Ref    any
		Limits []int64
	}{bare(req.URL), wanted(req.Ref), []int64{g.options.MaxBytes, g.options.MaxObjectBytes, g.options.MaxObjects, g.options.MaxMemory}})
	sum := sha256.Sum256(what)
	return hex.EncodeToString(sum[:]), err
}

// Save has the process after this one go on with the stores that are at rest now, and removes
// what an earlier one has left and nobody has asked for. What was fetched since is fetched again.
func (g *Git) Save() error {
	g.mu.Lock()
	slots := make([]*slot, 0, len(g.slots))
	for _, s := range g.slots {
		slots = append(slots, s)
	}
	var left []string
	if len(g.left) > 0 && g.options.Now().Sub(g.swept) > unclaimed {
		for _, dirs := range g.left {
			left = append(left, dirs...)
		}
		g.left = nil
	}
	g.mu.Unlock()
	var errs []error
	for _, s := range slots {
		errs = append(errs, s.save())
	}
	for _, dir := range left {
		errs = append(errs, os.RemoveAll(dir))
	}
	return errors.Join(errs...)
}

// save waits for nobody: a store that is being fetched into is saved the next time.
func (s *slot) save() error {
	select {
	case s.turn <- struct{}{}:
		defer s.unlock()
	default:
		return nil
	}
	if s.store == nil || !s.store.usable() || s.store.tip.IsZero() {
		return nil
	}
	return s.store.save(s.of)
}

func (s *store) save(of string) error {
	packs, err := filepath.Glob(filepath.Join(s.packDir(), "*.pack"))
	if err != nil {
		return err
	}
	for i, name := range packs {
		packs[i] = strings.TrimSuffix(filepath.Base(name), ".pack")
	}
	now := &record{Of: of, Tip: s.tip, Shallow: s.shallow, Cloned: s.cloned, Packs: packs}
	if now.equal(s.saved) {
		return nil
	}
	err = wholefile.Write(filepath.Join(s.dir, recordName), 0o750, func(w io.Writer) error {
		return json.NewEncoder(w).Encode(now)
	})
	if err == nil {
		s.saved = now
	}
	return err
}

// claim gives a slot without a store one that an earlier process has left, if there is one
// of the same and all that it has to have is whole. The slot's turn is the caller's.
func (g *Git) claim(s *slot, req Request) error {
	if s.store != nil {
		return nil
	}
	var err error
	if s.of, err = g.storeOf(req); err != nil {
		return &URLError{URL: bare(req.URL), Reason: "cannot be read"}
	}
	for s.store == nil {
		dir := g.leftOf(s.of)
		if dir == "" {
			return nil
		}
		found, err := openStore(dir, g.room, g.options.Space)
		if err == nil {
			s.store = found
		} else if err := os.RemoveAll(dir); err != nil {
			return &StoreError{Err: err}
		}
	}
	return nil
}

// leftOf takes one folder off the list of what an earlier process has left; empty if none is.
func (g *Git) leftOf(what string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	dirs := g.left[what]
	if len(dirs) == 0 {
		return ""
	}
	g.left[what] = dirs[1:]
	return dirs[0]
}

// openStore opens what the record in a folder names, and removes whatever else is there.
func openStore(dir string, shared *room, space *Space) (*store, error) {
	has, err := readRecord(dir)
	if err != nil {
		return nil, err
	}
	s := &store{
		dir: dir, room: shared, space: space, proven: map[plumbing.Hash]struct{}{},
		tip: has.Tip, shallow: has.Shallow, cloned: has.Cloned, saved: has,
	}
	if err := s.keepOnly(has.Packs); err != nil {
		return nil, err
	}
	var indexes []*idxfile.MemoryIndex
	for _, name := range has.Packs {
		index, bytes, err := s.openPack(name)
		if err != nil {
			return nil, err
		}
		indexes = append(indexes, index)
		s.bytes += bytes
	}
	s.reopen(indexes...)
	s.space.Add(s.bytes)
	return s, nil
}

// readRecord reads the record of a folder that an earlier process has left.
func readRecord(dir string) (*record, error) {
	text, err := os.ReadFile(filepath.Join(dir, recordName))
	if err != nil {
		return nil, err
	}
	has := &record{}
	if err := json.Unmarshal(text, has); err != nil {
		return nil, fmt.Errorf("read %s: %w", recordName, err)
	}
	if has.Of == "" || has.Tip.IsZero() || len(has.Packs) == 0 {
		return nil, fmt.Errorf("%s lacks something", recordName)
	}
	return has, nil
}

// keepOnly removes the files of packs that were not there yet when the record was written.
func (s *store) keepOnly(packs []string) error {
	entries, err := os.ReadDir(s.packDir())
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := entry.Name()
		ending := filepath.Ext(name)
		if slices.Contains([]string{".pack", ".idx"}, ending) && slices.Contains(packs, name[:len(name)-len(ending)]) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(s.packDir(), name)); err != nil {
			return err
		}
	}
	return nil
}

// openPack reads the index of a pack, and how many bytes both have on disk. A machine that
// stopped may have lost the end of either.
func (s *store) openPack(name string) (*idxfile.MemoryIndex, int64, error) {
	base := filepath.Join(s.packDir(), filepath.Base(name))
	size := int64(0)
	for _, ending := range []string{".pack", ".idx"} {
		n, err := checkSum(base + ending)
		if err != nil {
			return nil, 0, err
		}
		size += n
	}
	f, err := os.Open(base + ".idx")
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	index := &idxfile.MemoryIndex{}
	if err := idxfile.NewDecoder(f).Decode(index); err != nil {
		return nil, 0, fmt.Errorf("read the index %s: %w", name, err)
	}
	return index, size, nil
}

// checkSum reads a pack or an index and compares it with the sum at its end. It returns its size.
func checkSum(path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	content := info.Size() - hash.Size
	if content < 0 {
		return 0, fmt.Errorf("%s: %w", path, io.ErrUnexpectedEOF)
	}
	sum := hash.New(hash.CryptoType)
	if _, err := io.CopyN(sum, f, content); err != nil {
		return 0, err
	}
	end, err := io.ReadAll(f)
	if err != nil {
		return 0, err
	}
	if !slices.Equal(sum.Sum(nil), end) {
		return 0, errors.New(filepath.Base(path) + " is not what was written")
	}
	return info.Size(), nil
}
