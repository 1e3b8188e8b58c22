package source

import (
	"errors"
	"io/fs"
	"path"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"github.com/plumbline-dev/plumbline/render"
)

// tree is a commit's tree as a read-only file system. It reads the store when
// it is read. Submodules are empty folders.
type tree struct {
	store    *store
	root     plumbing.Hash
	revision string
	maxFile  int64
	listings *listings
}

var (
	_ fs.ReadDirFS      = (*tree)(nil)
	_ fs.ReadFileFS     = (*tree)(nil)
	_ fs.StatFS         = (*tree)(nil)
	_ fs.ReadLinkFS     = (*tree)(nil)
	_ render.Identified = (*tree)(nil)
	_ render.Submodule  = (*dirEntry)(nil)
	_ render.Submodule  = info{}
)

func newTree(s *store, root plumbing.Hash, revision string, maxFile int64) *tree {
	return &tree{store: s, root: root, revision: revision, maxFile: maxFile, listings: newListings()}
}

// entry is one name in a folder.
type entry struct {
	name string
	mode filemode.FileMode
	hash plumbing.Hash
}

func (e entry) isDir() bool { return e.mode == filemode.Dir || e.mode == filemode.Submodule }

// Submodule says whether the entry is a commit of another repository.
func (e entry) Submodule() bool { return e.mode == filemode.Submodule }

// fsMode is the mode as io/fs has it.
func (e entry) fsMode() fs.FileMode {
	switch e.mode {
	case filemode.Dir, filemode.Submodule:
		return fs.ModeDir | 0o555
	case filemode.Symlink:
		return fs.ModeSymlink | 0o777
	case filemode.Executable:
		return 0o555
	default:
		return 0o444
	}
}

// Open opens a file or folder. Symlinks are followed within the tree; one that
// leaves it is a *SymlinkError.
func (t *tree) Open(name string) (fs.File, error) {
	e, err := t.walk("open", name, true)
	if err != nil {
		return nil, err
	}
	if e.isDir() {
		list, err := t.list("open", name, e)
		if err != nil {
			return nil, err
		}
		return &openDir{info: info{name: path.Base(name), entry: e}, list: list}, nil
	}
	data, err := t.read("open", name, e)
	if err != nil {
		return nil, err
	}
	return newOpenFile(info{name: path.Base(name), entry: e, size: int64(len(data))}, data), nil
}

// ReadFile reads a file, following symlinks. One that is too large is a
// *LimitError with its name.
func (t *tree) ReadFile(name string) ([]byte, error) {
	e, err := t.walk("readfile", name, true)
	if err != nil {
		return nil, err
	}
	if e.isDir() {
		return nil, &fs.PathError{Op: "readfile", Path: name, Err: errors.New("is a directory")}
	}
	return t.read("readfile", name, e)
}

// ReadDir lists a folder, sorted by name. Symlinks in it are not followed.
func (t *tree) ReadDir(name string) ([]fs.DirEntry, error) {
	e, err := t.walk("readdir", name, true)
	if err != nil {
		return nil, err
	}
	if !e.isDir() {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: errors.New("is not a directory")}
	}
	return t.list("readdir", name, e)
}

// Stat follows symlinks.
func (t *tree) Stat(name string) (fs.FileInfo, error) {
	e, err := t.walk("stat", name, true)
	if err != nil {
		return nil, err
	}
	return t.info("stat", name, e)
}

// Lstat does not follow a symlink at the end of the name.
func (t *tree) Lstat(name string) (fs.FileInfo, error) {
	e, err := t.walk("lstat", name, false)
	if err != nil {
		return nil, err
	}
	return t.info("lstat", name, e)
}

// ReadLink returns where a symlink points.
func (t *tree) ReadLink(name string) (string, error) {
	e, err := t.walk("readlink", name, false)
	if err != nil {
		return "", err
	}
	if e.mode != filemode.Symlink {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}
	return t.target("readlink", name, e)
}

// Identity is git's hash of a file's content. Of a folder it is a hash of its
// listing: the names, their modes and kinds, nothing of what is below them.
func (t *tree) Identity(name string) (string, error) {
	e, err := t.walk("identity", name, true)
	if err != nil {
		return "", err
	}
	if !e.isDir() {
		return e.hash.String(), nil
	}
	return t.identity(name, e)
}

func (t *tree) list(op, name string, e entry) ([]fs.DirEntry, error) {
	entries, err := t.folder(op, name, e)
	if err != nil {
		return nil, err
	}
	list := make([]fs.DirEntry, len(entries))
	for i, e := range entries {
		list[i] = &dirEntry{entry: e, tree: t, at: path.Join(name, e.name)}
	}
	return list, nil
}

func (t *tree) info(op, name string, e entry) (fs.FileInfo, error) {
	i := info{name: path.Base(name), entry: e}
	if e.isDir() {
		return i, nil
	}
	size, err := t.store.size(e.hash)
	if err != nil {
		return nil, t.failed(op, name, e.hash, err)
	}
	i.size = size
	return i, nil
}

func (t *tree) read(op, name string, e entry) ([]byte, error) {
	size, err := t.store.size(e.hash)
	if err != nil {
		return nil, t.failed(op, name, e.hash, err)
	}
	if size > t.maxFile {
		return nil, &fs.PathError{Op: op, Path: name, Err: &LimitError{What: "the file " + name, Limit: t.maxFile}}
	}
	data, err := t.store.blob(e.hash)
	if err != nil {
		return nil, t.failed(op, name, e.hash, err)
	}
	return data, nil
}

// failed says why an object is unavailable.
func (t *tree) failed(op, name string, h plumbing.Hash, err error) error {
	var limit *LimitError
	switch {
	case errors.As(err, &limit):
		err = limit
	case errors.Is(err, errStale):
		err = &StaleError{Revision: t.revision}
	case errors.Is(err, plumbing.ErrObjectNotFound):
		err = &MissingError{URL: t.revision, Object: h.String(), Name: name}
	default:
		err = &StoreError{Err: err}
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}
