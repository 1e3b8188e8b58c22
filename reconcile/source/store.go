package source

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"
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
	err = s.small(commit, "the commit "+commit.String(), func(objects *filesystem.Storage) error {
		c, err := object.GetCommit(objects, commit)
		if err != nil {
			return err
		}
		root = c.TreeHash
		return nil
	})
	return root, err
}
