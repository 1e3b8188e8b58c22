package source

import (
	"context"
	"fmt"
	"path"
	"sort"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/memory"
)

// graft makes a tree out of another one, in which some files are what they were. Nothing that is
// not named is touched.
type graft struct {
	store *store
	// made has the trees that are new.
	made *memory.Storage
}

// files are what is to stand at a path; nil for no file.
type files map[string]*object.TreeEntry

// tree is what becomes of a tree, the zero hash for none; the zero hash where nothing is left of it.
func (g *graft) tree(at string, root plumbing.Hash, take files) (plumbing.Hash, error) {
	there, err := g.store.entriesOf(root)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	here, below := split(take)
	for name, deeper := range below {
		if err := g.folder(path.Join(at, name), there, here, deeper); err != nil {
			return plumbing.ZeroHash, err
		}
	}
	for name, file := range here {
		switch now, is := there[name]; {
		case file == nil && is && now.Mode.IsFile():
			delete(there, name)
		case file == nil:
		case is && !now.Mode.IsFile():
			return plumbing.ZeroHash, &GraftError{Name: path.Join(at, name), Reason: "was a file, and is none now"}
		default:
			there[name] = object.TreeEntry{Name: name, Mode: file.Mode, Hash: file.Hash}
		}
	}
	return g.write(there, at == "")
}

// folder puts a folder with what it is to have below it among the entries that are there.
func (g *graft) folder(at string, there map[string]object.TreeEntry, here, deeper files) error {
	name := path.Base(at)
	child, is := there[name]
	if is && child.Mode != filemode.Dir {
		switch {
		case isGone(here, name):
			is = false
		case onlyGone(deeper):
			return nil
		default:
			return &GraftError{Name: at, Reason: "was a folder, and is none now"}
		}
	}
	if !is {
		child = object.TreeEntry{Name: name, Mode: filemode.Dir}
	}
	hash, err := g.tree(at, child.Hash, deeper)
	if err != nil {
		return err
	}
	child.Hash = hash
	if there[name] = child; hash.IsZero() {
		delete(there, name)
	}
	return nil
}

// isGone says that no file is to stand at a name.
func isGone(here files, name string) bool {
	file, named := here[name]
	return named && file == nil
}

func onlyGone(take files) bool {
	for _, file := range take {
		if file != nil {
			return false
		}
	}
	return true
}

// write keeps a tree. Git has no empty ones but at the root.
func (g *graft) write(there map[string]object.TreeEntry, root bool) (plumbing.Hash, error) {
	if len(there) == 0 && !root {
		return plumbing.ZeroHash, nil
	}
	tree := object.Tree{}
	for _, e := range there {
		tree.Entries = append(tree.Entries, e)
	}
	sort.Sort(object.TreeEntrySorter(tree.Entries))
	return keep(g.made, &tree)
}

// encoder is an object that Git keeps.
type encoder interface {
	Encode(plumbing.EncodedObject) error
}

// keep encodes an object, and keeps it.
func keep(in *memory.Storage, o encoder) (plumbing.Hash, error) {
	encoded := in.NewEncodedObject()
	if err := o.Encode(encoded); err != nil {
		return plumbing.ZeroHash, fmt.Errorf("write an object: %w", err)
	}
	return in.SetEncodedObject(encoded)
}

// keepFiles adds the content of files: a host that has lost From may lack them.
func (g *graft) keepFiles(ctx context.Context, take files, most int64) error {
	left := most
	for _, file := range take {
		if file == nil {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		size, err := g.store.size(file.Hash)
		if err != nil {
			return err
		}
		if left -= size; left < 0 {
			return &LimitError{What: "what is taken back", Limit: most}
		}
		data, err := g.store.blob(file.Hash)
		if err != nil {
			return err
		}
		blob := g.made.NewEncodedObject()
		blob.SetType(plumbing.BlobObject)
		if out, err := blob.Writer(); err != nil {
			return err
		} else if _, err := out.Write(data); err != nil {
			return err
		}
		if _, err := g.made.SetEncodedObject(blob); err != nil {
			return err
		}
	}
	return nil
}

// split tells the files of a folder from those below its folders.
func split(take files) (here files, below map[string]files) {
	here, below = files{}, map[string]files{}
	for name, file := range take {
		folder, rest, deeper := strings.Cut(name, "/")
		if !deeper {
			here[name] = file
			continue
		}
		if below[folder] == nil {
			below[folder] = files{}
		}
		below[folder][rest] = file
	}
	return here, below
}

// GraftError says that a file cannot be what it was, for what stands there now.
type GraftError struct {
	Name, Reason string
}

// Error names the file.
func (e *GraftError) Error() string {
	return fmt.Sprintf("%s %s: take the change back by hand", e.Name, e.Reason)
}
