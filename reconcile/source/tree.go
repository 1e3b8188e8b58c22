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

// Submodule reports whether the entry is a commit of another repository.
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

const (
	// maxHops is how many symlinks one name may lead over, as on Linux.
	maxHops = 40
	// maxTarget is the longest target of a symlink, as on Linux.
	maxTarget = 4096
	// maxSteps is how many parts one name may have with those of all targets on its way:
	// forty links could lead through eighty thousand folders, for each file again.
	maxSteps = 1000
)

// walk finds what stands at a name, following the symlinks on the way, and one
// at the end if follow is set.
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
			return entry{}, w.astray(fmt.Sprintf("is part of a way of more than %d folders", maxSteps))
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

// direct finds what stands at a name that no symlink is part of; false if one is, or
// where nothing is found. It is what is asked of every input at every commit.
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
			return entry{}, false // who walks says why
		}
		i, ok := find(entries, part)
		if !ok || entries[i].mode == filemode.Symlink {
			return entry{}, false
		}
		here = entries[i]
	}
	return here, true
}

// find is the place of a name in a folder.
func find(entries []entry, name string) (int, bool) {
	return slices.BinarySearchFunc(entries, name, func(e entry, name string) int { return strings.Compare(e.name, name) })
}

// walker goes from the root to a name.
type walker struct {
	tree     *tree
	op, name string
	trail    []entry // from the root to where it stands
	link     string  // the name of the symlink that it followed last
	target   string  // and where that points
	hops     int
}

// step goes one part further. Where the part is a symlink to be followed, it
// stays and returns the parts of its target.
func (w *walker) step(part string, follow bool) ([]string, error) {
	switch part {
	case "", ".":
		return nil, nil
	case "..":
		if len(w.trail) == 1 {
			return nil, w.astray("leads out of the repository")
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
		return nil, w.astray("is part of a chain of symlinks that does not end")
	}
	if path.IsAbs(target) {
		return nil, w.astray("leads out of the repository")
	}
	return strings.Split(target, "/"), nil
}

func (w *walker) fail(err error) error {
	return &fs.PathError{Op: w.op, Path: w.name, Err: err}
}

func (w *walker) astray(reason string) error {
	return w.fail(&SymlinkError{Name: w.link, Target: w.target, Reason: reason})
}

// at is the name from the root of something in the folder where it stands.
func (w *walker) at(name string) string {
	parts := make([]string, 0, len(w.trail)+1)
	for _, e := range w.trail {
		parts = append(parts, e.name)
	}
	return path.Join(append(parts, name)...)
}

// target reads where a symlink points.
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

// info describes a file, folder or symlink. Git keeps no times.
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

// dirEntry is one name of a listing. Its size is looked up when it is asked for.
type dirEntry struct {
	entry
	tree *tree
	at   string // the name from the root
}

func (d *dirEntry) Name() string               { return d.name }
func (d *dirEntry) IsDir() bool                { return d.isDir() }
func (d *dirEntry) Type() fs.FileMode          { return d.fsMode().Type() }
func (d *dirEntry) Info() (fs.FileInfo, error) { return d.tree.info("stat", d.at, d.entry) }
func (d *dirEntry) String() string             { return fs.FormatDirEntry(d) }

// openFile is a file that was read.
type openFile struct {
	info info
	*bytes.Reader
}

func newOpenFile(i info, data []byte) *openFile {
	return &openFile{info: i, Reader: bytes.NewReader(data)}
}

func (f *openFile) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *openFile) Close() error               { return nil }

// openDir is a folder that was listed.
type openDir struct {
	info info
	list []fs.DirEntry
}

func (d *openDir) Stat() (fs.FileInfo, error) { return d.info, nil }
func (d *openDir) Close() error               { return nil }

func (d *openDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.info.name, Err: fs.ErrInvalid}
}

// ReadDir returns the next n entries, or all that are left where n is not positive.
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
