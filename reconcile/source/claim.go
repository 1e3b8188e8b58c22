package source

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/go-git/go-git/v5/plumbing/hash"
)

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

// leftOf takes one folder off the list of what an earlier process has left; empty where none is.
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
