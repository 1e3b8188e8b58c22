package source

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
)

const (
	// maxDepth of folders within folders.
	maxDepth = 256
	// maxTree is the largest listing of one folder, in bytes; an entry has 30 or more.
	maxTree = 8 << 20
	// maxEntries is how many entries all the folders that are read of a revision may
	// have: each is held in memory.
	maxEntries = 500_000
)

// tooManyEntries says so.
func tooManyEntries() error {
	return &LimitError{What: "the number of files and folders", Limit: maxEntries, Unit: "entries"}
}

// missing is an object that should be in a store and is not, or cannot be read.
type missing struct {
	hash plumbing.Hash
	name string
	err  error
}

func (e *missing) Error() string { return fmt.Sprintf("object %s (%s): %v", e.hash, e.name, e.err) }
func (e *missing) Unwrap() error { return e.err }

// prove shows that a commit, its trees and all blobs below a folder are in the
// store; the folder "." stands for the whole tree. What was proven once is not
// looked at again, because objects do not change and packs are not taken away. It ends with
// its context.
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
			return nil // the reader of the folder says that it does not exist
		}
		if e.Mode != filemode.Dir {
			at = root // a symlink may lead anywhere: prove all
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
			// A commit of another repository.
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
