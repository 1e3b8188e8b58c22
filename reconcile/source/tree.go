package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"github.com/plumbline-dev/plumbline/render"
)

// tree is a commit's tree as a read-only file system. It reads from the store on demand. Submodules are empty folders.
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

// Submodule reports whether the entry is a commit of another repository.
func (e entry) Submodule() bool { return e.mode == filemode.Submodule }

// fsMode returns the mode in io/fs terms.
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

// Open opens a file or folder. It follows symlinks within the tree; a symlink out of it is a *SymlinkError.
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

// ReadFile reads a file and follows symlinks. A file that is too large is a *LimitError with its name.
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

// Stat returns information about a name and follows symlinks.
func (t *tree) Stat(name string) (fs.FileInfo, error) {
	e, err := t.walk("stat", name, true)
	if err != nil {
		return nil, err
	}
	return t.info("stat", name, e)
}

// Lstat is like Stat, but does not follow a symlink at the end of the name.
func (t *tree) Lstat(name string) (fs.FileInfo, error) {
	e, err := t.walk("lstat", name, false)
	if err != nil {
		return nil, err
	}
	return t.info("lstat", name, e)
}

// ReadLink returns the target of a symlink.
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

// Identity returns git's hash of a file's content. For a folder it returns a hash of its listing: names, modes and
// kinds, but nothing about what is below them.
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

// failed returns the error for an object that is not available.
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

const (
	// maxHops limits the symlinks in the resolution of one name, as on Linux.
	maxHops = 40
	// maxTarget limits the length of a symlink's target, as on Linux.
	maxTarget = 4096
	// maxSteps limits the path elements of one name including those of all symlink targets: forty symlinks could lead
	// through eighty thousand folders, again for each file.
	maxSteps = 1000
)

// walk returns the entry at a name. It follows symlinks on the way, and one at the end if follow is set.
func (t *tree) walk(op, name string, follow bool) (entry, error) {
	if !fs.ValidPath(name) {
		return entry{}, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	if e, ok := t.direct(op, name); ok {
		return e, nil
	}
	w := walker{tree: t, op: op, name: name, trail: []entry{{name: ".", mode: filemode.Dir, hash: t.root}}}
	steps := 0
	for rest := strings.Split(name, "/"); len(rest) > 0; {
		if steps++; steps > maxSteps && w.hops > 0 {
			return entry{}, w.refuse(fmt.Sprintf("is part of a way of more than %d folders", maxSteps))
		}
		part := rest[0]
		rest = rest[1:]
		next, err := w.step(part, follow || len(rest) > 0)
		if err != nil {
			return entry{}, err
		}
		rest = append(next, rest...)
	}
	return w.trail[len(w.trail)-1], nil
}

// direct returns the entry at a name without symlinks; false if there is a symlink or nothing is found. It is the fast
// path for the inputs that are checked at every commit.
func (t *tree) direct(op, name string) (entry, bool) {
	here := entry{name: ".", mode: filemode.Dir, hash: t.root}
	if name == "." {
		return here, true
	}
	for rest, more := name, true; more; {
		var part string
		part, rest, more = strings.Cut(rest, "/")
		if here.mode != filemode.Dir {
			return entry{}, false
		}
		entries, err := t.folder(op, name, here)
		if err != nil {
			return entry{}, false // the caller's slower walk reports why
		}
		i, ok := find(entries, part)
		if !ok || entries[i].mode == filemode.Symlink {
			return entry{}, false
		}
		here = entries[i]
	}
	return here, true
}

// find returns the index of a name in a folder.
func find(entries []entry, name string) (int, bool) {
	return slices.BinarySearchFunc(entries, name, func(e entry, name string) int { return strings.Compare(e.name, name) })
}

// walker walks from the root to a name.
type walker struct {
	tree     *tree
	op, name string
	trail    []entry // from the root to the current entry
	link     string  // the name of the last symlink that was followed
	target   string  // and its target
	hops     int
}

// step walks one path element. If that is a symlink to follow, it stays in place and returns the elements of its
// target.
func (w *walker) step(part string, follow bool) ([]string, error) {
	switch part {
	case "", ".":
		return nil, nil
	case "..":
		if len(w.trail) == 1 {
			return nil, w.refuse("leads out of the repository")
		}
		w.trail = w.trail[:len(w.trail)-1]
		return nil, nil
	}
	here := w.trail[len(w.trail)-1]
	if !here.isDir() {
		return nil, w.fail(fs.ErrNotExist)
	}
	entries, err := w.tree.folder(w.op, w.name, here)
	if err != nil {
		return nil, err
	}
	i, ok := find(entries, part)
	if !ok {
		return nil, w.fail(fs.ErrNotExist)
	}
	if e := entries[i]; e.mode != filemode.Symlink || !follow {
		w.trail = append(w.trail, e)
		return nil, nil
	}
	return w.turn(entries[i])
}

// turn follows a symlink.
func (w *walker) turn(link entry) ([]string, error) {
	target, err := w.tree.target(w.op, w.name, link)
	if err != nil {
		return nil, err
	}
	w.link, w.target = w.at(link.name), target
	if w.hops++; w.hops > maxHops {
		return nil, w.refuse("is part of a chain of symlinks that does not end")
	}
	if path.IsAbs(target) {
		return nil, w.refuse("leads out of the repository")
	}
	return strings.Split(target, "/"), nil
}

func (w *walker) fail(err error) error {
	return &fs.PathError{Op: w.op, Path: w.name, Err: err}
}

func (w *walker) refuse(reason string) error {
	return w.fail(&SymlinkError{Name: w.link, Target: w.target, Reason: reason})
}

// at returns the path from the root of a name in the current folder.
func (w *walker) at(name string) string {
	parts := make([]string, 0, len(w.trail)+1)
	for _, e := range w.trail {
		parts = append(parts, e.name)
	}
	return path.Join(append(parts, name)...)
}

// target reads the target of a symlink.
func (t *tree) target(op, name string, link entry) (string, error) {
	size, err := t.store.size(link.hash)
	if err != nil {
		return "", t.failed(op, name, link.hash, err)
	}
	if size > maxTarget {
		return "", &fs.PathError{Op: op, Path: name, Err: &LimitError{What: "the target of the symlink " + link.name, Limit: maxTarget}}
	}
	data, err := t.store.blob(link.hash)
	if err != nil {
		return "", t.failed(op, name, link.hash, err)
	}
	return string(data), nil
}

// info describes a file, folder or symlink. Git stores no times.
type info struct {
	name string
	entry
	size int64
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) Mode() fs.FileMode  { return i.fsMode() }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.isDir() }
func (i info) Sys() any           { return nil }

// dirEntry is one entry of a listing. Its size is only read on request.
type dirEntry struct {
	entry
	tree *tree
	at   string // the path from the root
}

func (d *dirEntry) Name() string               { return d.name }
func (d *dirEntry) IsDir() bool                { return d.isDir() }
func (d *dirEntry) Type() fs.FileMode          { return d.fsMode().Type() }
func (d *dirEntry) Info() (fs.FileInfo, error) { return d.tree.info("stat", d.at, d.entry) }
func (d *dirEntry) String() string             { return fs.FormatDirEntry(d) }

// openFile is a file whose content has been read.
type openFile struct {
	info info
	*bytes.Reader
}

func newOpenFile(i info, data []byte) *openFile {
	return &openFile{info: i, Reader: bytes.NewReader(data)}
}

func (f *openFile) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *openFile) Close() error               { return nil }

// openDir is a folder whose entries have been read.
type openDir struct {
	info info
	list []fs.DirEntry
}

func (d *openDir) Stat() (fs.FileInfo, error) { return d.info, nil }
func (d *openDir) Close() error               { return nil }

func (d *openDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.info.name, Err: fs.ErrInvalid}
}

// ReadDir returns the next n entries, or all remaining ones if n is not positive.
func (d *openDir) ReadDir(n int) ([]fs.DirEntry, error) {
	if n <= 0 {
		rest := d.list
		d.list = nil
		return rest, nil
	}
	if len(d.list) == 0 {
		return nil, io.EOF
	}
	n = min(n, len(d.list))
	next := d.list[:n]
	d.list = d.list[n:]
	return next, nil
}
