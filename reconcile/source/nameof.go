package source

import (
	"bytes"
	"fmt"
	"io"
	"path"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/object"
)

const (
	// maxNamed is the largest object that is read through to find its name.
	maxNamed = 1 << 30
	// maxListing is the largest tree that is read to find a name.
	maxListing = 4 << 20
)

// place is where a tree of the pack has an object.
type place struct {
	tree plumbing.Hash
	name string
}

// nameOf finds the path of a blob that is too large, so that a person knows
// what to take out. Only trees that the pack has whole are read, which they
// are in most packs of a clone.
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

// findPlaces reads where the trees of a pack have each other, and the blob.
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
