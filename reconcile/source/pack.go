package source

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"path"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// longestChain limits the deltas in an object's chain, because reading the object reads each of them. Git creates
// chains of up to 50, and of up to 250 with --aggressive.
const longestChain = 300

// made is a delta of a pack and its base.
type made struct {
	// at is the offset of the delta in the pack, and on that of its base; 0 if the base is identified by its hash.
	at, on int64
	hash   plumbing.Hash
}

// deltas are the deltas of one pack, in its order.
type deltas []made

// add records an object of the pack if it is a delta.
func (d *deltas) add(h *packfile.ObjectHeader) {
	if h.Type.IsDelta() {
		*d = append(*d, made{at: h.Offset, on: h.OffsetReference, hash: h.Reference})
	}
}

// check returns an error if a chain is too long; index is that of the pack. The error is a *LimitError or the index's.
func (d deltas) check(index *idxfile.MemoryIndex) error {
	on := make(map[int64]int64, len(d))
	for _, one := range d {
		if one.on == 0 {
			offset, err := index.FindOffset(one.hash)
			if err != nil {
				return err
			}
			one.on = offset
		}
		on[one.at] = one.on
	}
	depths := make(map[int64]int, len(on))
	for at := range on {
		var above []int64
		depth, known := 0, false
		for {
			if depth, known = depths[at]; known {
				break
			}
			base, delta := on[at]
			if !delta {
				break
			}
			if above = append(above, at); len(above) > longestChain {
				return tooLong()
			}
			at = base
		}
		if depth+len(above) > longestChain {
			return tooLong()
		}
		for i := len(above) - 1; i >= 0; i-- {
			depth++
			depths[above[i]] = depth
		}
	}
	return nil
}

func tooLong() error {
	return &LimitError{What: "the number of deltas that one object of the repository is made of", Limit: longestChain, Unit: "deltas"}
}

// deltaHead keeps the beginning of a delta: the sizes of its base and of its result, each in groups of seven bits,
// lowest first. https://git-scm.com/docs/pack-format
type deltaHead struct {
	kept [20]byte
	n    int
}

func (d *deltaHead) Write(p []byte) (int, error) {
	d.n += copy(d.kept[d.n:], p)
	return len(p), nil
}

// result returns the size of the delta's result.
func (d *deltaHead) result() int64 {
	_, rest := readVarint(d.kept[:d.n])
	size, _ := readVarint(rest)
	if size > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(size)
}

func readVarint(b []byte) (n uint64, rest []byte) {
	for i, c := range b {
		n |= uint64(c&0x7f) << (7 * i)
		if c&0x80 == 0 {
			return n, b[i+1:]
		}
	}
	return n, nil
}

const (
	// maxNamed is the size of the largest object that is hashed to find its name.
	maxNamed = 1 << 30
	// maxListing is the size of the largest tree that is read to find a name.
	maxListing = 4 << 20
)

// place is the tree of the pack that contains an object, and the name there.
type place struct {
	tree plumbing.Hash
	name string
}

// nameOf finds the path of a blob that is too large, so that a person knows what to remove. It reads only trees that
// the pack contains whole, as most trees of a clone are.
func nameOf(f io.ReadSeeker, most int64, s *packfile.Scanner, h *packfile.ObjectHeader, size int64) string {
	const unnamed = "an object of the repository"
	if h.Type != plumbing.BlobObject || size > maxNamed {
		return unnamed
	}
	hasher := plumbing.NewHasher(plumbing.BlobObject, size)
	if _, _, err := s.NextObject(hasher); err != nil {
		return unnamed
	}
	places, err := findPlaces(f, most, hasher.Sum())
	if err != nil {
		return unnamed
	}
	name, at := "", hasher.Sum()
	for range maxDepth {
		up, ok := places[at]
		if !ok {
			break
		}
		name, at = path.Join(up.name, name), up.tree
	}
	if name == "" {
		return unnamed
	}
	return fmt.Sprintf("the file %s", name)
}

// findPlaces finds the trees of a pack that contain other trees or the blob.
func findPlaces(f io.ReadSeeker, most int64, blob plumbing.Hash) (map[plumbing.Hash]place, error) {
	places := map[plumbing.Hash]place{}
	err := scan(f, most, func(s *packfile.Scanner, h *packfile.ObjectHeader) error {
		if h.Type != plumbing.TreeObject || h.Length > maxListing {
			return nil
		}
		var data bytes.Buffer
		if _, _, err := s.NextObject(&data); err != nil {
			return err
		}
		held := &plumbing.MemoryObject{}
		held.SetType(plumbing.TreeObject)
		if _, err := held.Write(data.Bytes()); err != nil {
			return err
		}
		tree := &object.Tree{}
		if err := tree.Decode(held); err != nil {
			return err
		}
		for _, e := range tree.Entries {
			if e.Mode == filemode.Dir || e.Hash == blob {
				places[e.Hash] = place{tree: held.Hash(), name: e.Name}
			}
		}
		return nil
	})
	return places, err
}

const (
	// maxDepth limits how deep folders are nested.
	maxDepth = 256
	// maxTree limits the listing of one folder, in bytes; an entry has 30 or more.
	maxTree = 8 << 20
	// maxEntries limits the total entries of all folders that are read of a revision, because each is held in memory.
	maxEntries = 500_000
)

func tooManyEntries() error {
	return &LimitError{What: "the number of files and folders", Limit: maxEntries, Unit: "entries"}
}

// missing is an object that should be in a store but is not, or cannot be read.
type missing struct {
	hash plumbing.Hash
	name string
	err  error
}

func (e *missing) Error() string { return fmt.Sprintf("object %s (%s): %v", e.hash, e.name, e.err) }
func (e *missing) Unwrap() error { return e.err }

// prove verifies that a commit, its trees and all blobs below a folder are in the store; the folder "." means the whole
// tree. Verified trees are not checked again, because objects do not change and packs are not removed. prove stops when
// its context ends.
func (s *store) prove(ctx context.Context, commit plumbing.Hash, folder string) error {
	root, err := s.root(commit)
	if err != nil {
		return &missing{hash: commit, name: "the commit", err: err}
	}
	at, name := root, "."
	s.entries = 0
	for part := range strings.SplitSeq(path.Clean(folder), "/") {
		if part == "." {
			break
		}
		entries, err := s.folder(at)
		if err != nil {
			return &missing{hash: at, name: name, err: err}
		}
		e, ok := named(entries, part)
		if !ok {
			return nil // the reader of the folder reports that it does not exist
		}
		if e.Mode != filemode.Dir {
			at = root // a symlink may lead anywhere: verify everything
			break
		}
		at, name = e.Hash, path.Join(name, part)
	}
	return s.proveTree(ctx, at, name, 0)
}

func named(entries []object.TreeEntry, name string) (object.TreeEntry, bool) {
	for _, e := range entries {
		if e.Name == name {
			return e, true
		}
	}
	return object.TreeEntry{}, false
}

func (s *store) proveTree(ctx context.Context, tree plumbing.Hash, name string, depth int) error {
	if _, ok := s.proven[tree]; ok {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if depth > maxDepth {
		return &missing{hash: tree, name: name, err: fmt.Errorf("folders are nested more than %d deep", maxDepth)}
	}
	entries, err := s.folder(tree)
	if err != nil {
		return &missing{hash: tree, name: name, err: err}
	}
	if s.entries += len(entries); s.entries > maxEntries {
		return &missing{hash: tree, name: name, err: tooManyEntries()}
	}
	for _, e := range entries {
		switch e.Mode {
		case filemode.Submodule:
			// This is a commit of another repository.
		case filemode.Dir:
			if err := s.proveTree(ctx, e.Hash, path.Join(name, e.Name), depth+1); err != nil {
				return err
			}
		default:
			if !s.has(e.Hash) {
				return &missing{hash: e.Hash, name: path.Join(name, e.Name), err: plumbing.ErrObjectNotFound}
			}
		}
	}
	s.proven[tree] = struct{}{}
	return nil
}
