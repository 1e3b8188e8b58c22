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
	// maxPacks limits the packs of a store, because each is searched in turn.
	maxPacks = 50
	// growthSlack is how much a store may grow beyond twice its clone, so that a tiny repository is not cloned at every
	// other fetch.
	growthSlack = 64 << 10
	// objectCache limits the objects of a store that are cached in memory.
	objectCache = 2 * cache.MiByte
	// openPacks limits the file descriptors of a store.
	openPacks = 4
)

// store contains the packs of one clone and of the fetches since, in a folder with the layout of git's objects folder.
// Snapshots read it while it grows.
type store struct {
	dir string
	// room is the memory for indexing, shared with other stores.
	room *room
	// space is the disk space that all stores share.
	space *Space

	// The fields below are used by one fetch at a time.
	shallow []plumbing.Hash            // where the history is cut off
	tip     plumbing.Hash              // the last commit that was verified to be complete
	proven  map[plumbing.Hash]struct{} // trees that are present with everything below them
	entries int                        // that the verification of the last commit visited
	bytes   int64                      // on disk
	cloned  int64                      // of bytes, the size of the clone
	view    *tree                      // of tip
	// deepened is the last request for more history.
	deepened deepened
	saved    *record // the record in the store's folder

	mu      sync.Mutex             // guards the fields below, which Snapshots and Since use
	indexes []*idxfile.MemoryIndex // one for each pack
	objects *filesystem.Storage
	closed  bool
	broken  bool // an object was missing: no fetch may build on this store
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

// reopen makes new packs and their objects visible. With ExclusiveAccess, go-git lists the packs only once.
func (s *store) reopen(indexes ...*idxfile.MemoryIndex) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.indexes = append(s.indexes, indexes...)
	if s.objects != nil {
		_ = s.objects.Close() // opened for reading: nothing can be lost
	}
	s.objects = filesystem.NewStorageWithOptions(
		osfs.New(s.dir, osfs.WithBoundOS()),
		cache.NewObjectLRU(objectCache),
		filesystem.Options{ExclusiveAccess: true, MaxOpenDescriptors: openPacks},
	)
}

// grown reports whether a new clone is better than one more pack.
func (s *store) grown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.indexes) >= maxPacks || s.bytes > 2*s.cloned+growthSlack
}

// usable reports whether a fetch may build on this store: another process may have emptied the cache folder.
func (s *store) usable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.broken {
		return false
	}
	_, err := os.Stat(s.packDir())
	return err == nil
}

// remove deletes the store. Snapshots that still read it get a *StaleError.
func (s *store) remove() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.space.Add(-s.bytes)
	}
	s.closed = true
	_ = s.objects.Close() // opened for reading: nothing can be lost
	if err := os.RemoveAll(s.dir); err != nil {
		return &StoreError{Err: err}
	}
	return nil
}

// uncount stops counting a store's bytes on disk, because another store replaces it, and returns them.
func (s *store) uncount() int64 {
	if s == nil {
		return 0
	}
	s.space.Add(-s.bytes)
	bytes := s.bytes
	s.bytes = 0
	return bytes
}

// count reverts uncount.
func (s *store) count(bytes int64) {
	if s == nil {
		return
	}
	s.space.Add(bytes)
	s.bytes += bytes
}

var errStale = errors.New("the store was replaced")

// with gives one reader at a time access to the objects, because go-git's storage is not safe for concurrent use. A
// read error marks the store as broken.
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

// has reports whether the store has an object. It searches only the indexes, because go-git would first look for a
// loose object file.
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

// size returns the size of a blob in bytes.
func (s *store) size(h plumbing.Hash) (n int64, err error) {
	err = s.with(func(objects *filesystem.Storage) error {
		n, err = objects.EncodedObjectSize(h)
		return err
	})
	return n, err
}

// blob reads a whole blob.
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

// root returns the hash of a commit's tree.
func (s *store) root(commit plumbing.Hash) (root plumbing.Hash, err error) {
	c, err := s.commit(commit)
	if err != nil {
		return root, err
	}
	return c.TreeHash, nil
}

const (
	// recordName is the file in a store's folder whose presence lets the next process continue with the store.
	recordName = "store.json"
	// unclaimed is how long the stores of an earlier process are kept without a fetch.
	unclaimed = 10 * time.Minute
)

// record lists what must be in a store's folder. The packs that it lists were written before it; everything else in the
// folder was written after it.
type record struct {
	// Of identifies what the store is of.
	Of string `json:"of"`
	// Tip is the last commit that was verified to be complete; Shallow is where the history is cut off.
	Tip     plumbing.Hash   `json:"tip"`
	Shallow []plumbing.Hash `json:"shallow,omitempty"`
	// Cloned is the size of the clone, in bytes.
	Cloned int64 `json:"cloned"`
	// Packs are the names of the packs, without extensions.
	Packs []string `json:"packs"`
}

func (r *record) equal(other *record) bool {
	return other != nil && r.Of == other.Of && r.Tip == other.Tip && r.Cloned == other.Cloned &&
		slices.Equal(r.Shallow, other.Shallow) && slices.Equal(r.Packs, other.Packs)
}

// storeOf identifies what another process can use a store for: the same reference of the same URL, within the same
// limits. Credentials are not part of it, because nothing on disk is derived from them: every caller gets only what the
// host shows to it, from whichever store.
func (g *Git) storeOf(req Request) (string, error) {
	what, err := json.Marshal(struct {
		URL    string
		Ref    any
		Limits []int64
	}{bare(req.URL), wanted(req.Ref), []int64{g.options.MaxBytes, g.options.MaxObjectBytes, g.options.MaxObjects, g.options.MaxMemory}})
	sum := sha256.Sum256(what)
	return hex.EncodeToString(sum[:]), err
}

// Save lets the next process continue with the stores that are idle now, and removes the stores of an earlier process
// that nothing has requested. Later fetches are not saved and run again.
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

// save does not wait: a store with a fetch in progress is saved the next time.
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

// claim gives a slot without a store a matching store of an earlier process, if there is one and all of its packs are
// intact. The caller holds the slot's lock.
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

// leftOf removes one matching folder of an earlier process from the list and returns it; empty if there is none.
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

// openStore opens the packs that the record in a folder lists, and removes all other packs.
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

// readRecord reads the record in a folder of an earlier process.
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

// keepOnly removes the files of packs that were written after the record.
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

// openPack reads the index of a pack, and returns it with the size of both files on disk. Either may be truncated if
// the machine stopped.
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
	defer func() { _ = f.Close() }() // opened for reading
	index := &idxfile.MemoryIndex{}
	if err := idxfile.NewDecoder(f).Decode(index); err != nil {
		return nil, 0, fmt.Errorf("read the index %s: %w", name, err)
	}
	return index, size, nil
}

// checkSum verifies the checksum at the end of a pack or index, and returns the file's size.
func checkSum(path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }() // opened for reading
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
