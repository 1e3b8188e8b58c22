package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

// errTooMuch reports that a pack exceeds its size limit.
var errTooMuch = errors.New("the pack has more bytes than allowed")

// limits apply to what is added to a store, in bytes.
type limits struct {
	// pack is the largest pack; beyond it ingest returns errTooMuch.
	pack int64
	// object is the size of the largest object, because go-git holds each one whole in memory.
	object int64
	// content is the total size of all objects of a pack.
	content int64
	// objects is the number of objects in a pack: each takes memory while the pack is indexed, however small it is.
	objects int64
	// memory is what indexing a pack may take, as estimated by load.
	memory int64
}

// ingest writes a pack into the store, checks its size, and makes its objects visible.
//
// go-git could write it too, but parses it at the same time: an object that declares a gigabyte would be in memory
// before plumbline can refuse it, and a broken connection would leave files open and on disk. A large pack waits until
// there is room for it.
func (s *store) ingest(ctx context.Context, pack io.Reader, limit limits) (err error) {
	f, err := os.CreateTemp(s.packDir(), "incoming-")
	if err != nil {
		return &StoreError{Err: err}
	}
	defer func() {
		_ = f.Close()
		_ = os.Remove(f.Name()) // fails if it was renamed
	}()
	written := &spaced{w: disk{f}, space: s.space}
	defer func() {
		if err != nil {
			s.space.Add(-written.taken)
		}
	}()
	n, err := io.Copy(written, &limitedReader{r: pack, left: limit.pack, over: errTooMuch})
	if err != nil {
		return err
	}
	if n == 0 {
		return fmt.Errorf("the host sent an empty pack: %w", io.ErrUnexpectedEOF)
	}
	found, err := weigh(f, limit)
	if err != nil {
		return err
	}
	if found.memory() > limit.memory {
		return &LimitError{
			What:  fmt.Sprintf("the memory that it takes to read the repository, whose largest object has %d bytes,", found.largest),
			Limit: limit.memory,
		}
	}
	back, err := s.room.acquire(ctx, found)
	if err != nil {
		return err
	}
	defer back()
	index, indexed, err := s.index(f, found.deltas)
	if err != nil {
		return err
	}
	s.space.Add(indexed)
	s.bytes += n + indexed
	s.reopen(index)
	return nil
}

// index writes the pack's index and gives both files their final names, the pack last: like git, plumbline treats a
// pack without an index as incomplete.
func (s *store) index(f *os.File, made deltas) (*idxfile.MemoryIndex, int64, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, 0, &StoreError{Err: err}
	}
	observer := new(idxfile.Writer)
	parser, err := packfile.NewParser(packfile.NewScanner(f), observer)
	if err != nil {
		return nil, 0, err
	}
	checksum, err := parser.Parse()
	if err != nil {
		return nil, 0, fmt.Errorf("read the pack: %w", err)
	}
	index, err := observer.Index()
	if err != nil {
		return nil, 0, fmt.Errorf("index the pack: %w", err)
	}
	if err := made.check(index); err != nil {
		return nil, 0, err
	}
	base := filepath.Join(s.packDir(), "pack-"+checksum.String())
	idx, err := os.Create(base + ".idx")
	if err != nil {
		return nil, 0, &StoreError{Err: err}
	}
	written, err := idxfile.NewEncoder(disk{idx}).Encode(index)
	if err = errors.Join(err, idx.Close()); err == nil {
		err = os.Rename(f.Name(), base+".pack")
	}
	if err != nil {
		_ = os.Remove(idx.Name()) // unused without its pack
		return nil, 0, &StoreError{Err: err}
	}
	return index, int64(written), nil
}

// disk marks write errors, so that a full disk is not reported as an unreachable host.
type disk struct {
	f *os.File
}

func (d disk) Write(p []byte) (int, error) {
	n, err := d.f.Write(p)
	if err != nil {
		return n, &StoreError{Err: err}
	}
	return n, nil
}

// spaced reserves space for what it writes.
type spaced struct {
	w     io.Writer
	space *Space
	taken int64
}

func (s *spaced) Write(p []byte) (int, error) {
	if err := s.space.Take(int64(len(p))); err != nil {
		return 0, err
	}
	s.taken += int64(len(p))
	return s.w.Write(p)
}

// weigh reads only the sizes that a pack's objects declare.
func weigh(f io.ReadSeeker, limit limits) (load, error) {
	var found load
	err := scan(f, limit.objects, func(s *packfile.Scanner, h *packfile.ObjectHeader) error {
		size, err := expanded(s, h)
		if err != nil {
			return err
		}
		if size > limit.object {
			return &LimitError{What: nameOf(f, limit.objects, s, h, size), Limit: limit.object}
		}
		found.objects++
		found.largest = max(found.largest, size)
		found.deltas.add(h)
		if found.content += size; found.content > limit.content {
			return &LimitError{What: "the content of the repository", Limit: limit.content}
		}
		return nil
	})
	return found, err
}

// scan calls visit at the header of each object of a pack, which may have at most most objects. It skips the data that
// visit does not read.
func scan(f io.ReadSeeker, most int64, visit func(*packfile.Scanner, *packfile.ObjectHeader) error) error {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return &StoreError{Err: err}
	}
	s := packfile.NewScanner(f)
	_, count, err := s.Header()
	if err != nil {
		return fmt.Errorf("read the pack: %w", err)
	}
	if int64(count) > most {
		return &LimitError{What: "the number of objects of the repository", Limit: most, Unit: "objects"}
	}
	for range count {
		h, err := s.NextObjectHeader()
		if err != nil {
			return fmt.Errorf("read the pack: %w", err)
		}
		if err := visit(s, h); err != nil {
			return err
		}
	}
	return nil
}

// expanded returns the size of an object; for a delta, the size of its result.
func expanded(s *packfile.Scanner, h *packfile.ObjectHeader) (int64, error) {
	if h.Type != plumbing.OFSDeltaObject && h.Type != plumbing.REFDeltaObject {
		return h.Length, nil
	}
	var head deltaHead
	if _, _, err := s.NextObject(&head); err != nil {
		return 0, fmt.Errorf("read the pack: %w", err)
	}
	return max(h.Length, head.result()), nil
}

// listings caches decoded folders, so that each is decoded once.
type listings struct {
	mu sync.Mutex
	of map[plumbing.Hash][]entry // sorted by name
	// identities are hashes of the requested folders' listings.
	identities map[plumbing.Hash]string
	// entries is their total number.
	entries int
}

func newListings() *listings {
	return &listings{of: map[plumbing.Hash][]entry{}, identities: map[plumbing.Hash]string{}}
}

// folder returns the entries of a folder.
func (t *tree) folder(op, name string, e entry) ([]entry, error) {
	if e.mode == filemode.Submodule {
		return nil, nil
	}
	t.listings.mu.Lock()
	defer t.listings.mu.Unlock()
	if entries, ok := t.listings.of[e.hash]; ok {
		return entries, nil
	}
	listed, err := t.store.folder(e.hash)
	if err != nil {
		return nil, t.failed(op, name, e.hash, err)
	}
	if t.listings.entries += len(listed); t.listings.entries > maxEntries {
		return nil, t.failed(op, name, e.hash, tooManyEntries())
	}
	entries := make([]entry, 0, len(listed))
	for _, l := range listed {
		if !fs.ValidPath(l.Name) || l.Name == "." || strings.Contains(l.Name, "/") {
			return nil, &fs.PathError{Op: op, Path: name, Err: fmt.Errorf("the folder has an entry with the forbidden name %q", l.Name)}
		}
		entries = append(entries, entry{name: l.Name, mode: l.Mode, hash: l.Hash})
	}
	// Git sorts a folder as if its name had a trailing slash.
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	t.listings.of[e.hash] = entries
	return entries, nil
}

// identity returns a hash of a folder's listing: the names, modes and kinds.
func (t *tree) identity(name string, e entry) (string, error) {
	entries, err := t.folder("identity", name, e)
	if err != nil {
		return "", err
	}
	t.listings.mu.Lock()
	defer t.listings.mu.Unlock()
	if known, ok := t.listings.identities[e.hash]; ok && e.mode == filemode.Dir {
		return known, nil
	}
	sum := sha256.New()
	for _, e := range entries {
		_, _ = fmt.Fprintf(sum, "%s %s\x00", e.mode, e.name) // hashes never fail to write
	}
	identity := hex.EncodeToString(sum.Sum(nil))
	if e.mode == filemode.Dir {
		t.listings.identities[e.hash] = identity
	}
	return identity, nil
}
