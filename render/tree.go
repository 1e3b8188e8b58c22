package render

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// tree is the Snapshot's file system; it notes everything that is read.
type tree struct {
	fsys   fs.FS
	inputs Inputs
	left   *allowance
}

var (
	_ fs.ReadFileFS = (*tree)(nil)
	_ fs.ReadDirFS  = (*tree)(nil)
	_ fs.StatFS     = (*tree)(nil)
)

func newTree(fsys fs.FS, left *allowance) *tree {
	return &tree{fsys: fsys, inputs: Inputs{}, left: left}
}

// branch is the same tree with notes of its own.
func (t *tree) branch() *tree { return newTree(t.fsys, t.left) }

// Open is there to be an fs.FS: what is opened this way is noted, too.
func (t *tree) Open(name string) (fs.File, error) {
	if _, err := t.Stat(name); err != nil {
		return nil, err
	}
	return t.fsys.Open(name)
}

// ReadFile reads a file within the limits.
func (t *tree) ReadFile(name string) ([]byte, error) {
	data, err := t.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		t.inputs[name] = absent
	}
	if err != nil {
		return nil, err
	}
	identity, err := identify(t.fsys, name, func() (string, error) { return contentIdentity(data), nil })
	if err != nil {
		return nil, err
	}
	t.inputs[name] = identity
	return data, nil
}

func (t *tree) read(name string) ([]byte, error) {
	file, err := t.fsys.Open(name)
	if errors.Is(err, ErrIrregular) {
		return nil, irregular(name)
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, irregular(name)
	}
	if err := t.left.read(name, info.Size()); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(file, t.left.limits.FileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(data)) > t.left.limits.FileBytes {
		return nil, tooLarge(name, t.left.limits.FileBytes)
	}
	if bytes.HasPrefix(data, []byte(lfsPointer)) {
		return nil, Error{File: name, Message: "it is a pointer of Git LFS, which is not fetched: commit the file itself"}
	}
	return data, nil
}

// ErrIrregular is what a Snapshot says of a name that is neither a file nor a folder: a named
// pipe, say, which to open is to wait for another process to write to it.
var ErrIrregular = errors.New("it is not a regular file")

func irregular(name string) Error { return Error{File: name, Message: ErrIrregular.Error()} }

// lfsPointer is how a file begins that stands for another one in Git LFS:
// https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md#the-pointer
const lfsPointer = "version https://git-lfs.github.com/spec/"

// ReadDir lists a folder.
func (t *tree) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := t.left.list(); err != nil {
		return nil, err
	}
	entries, err := fs.ReadDir(t.fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		t.inputs[name] = absent
	}
	if err != nil {
		return nil, err
	}
	identity, err := identify(t.fsys, name, func() (string, error) { return listingIdentity(entries), nil })
	if err != nil {
		return nil, err
	}
	t.inputs[name] = identity
	return entries, nil
}

// Stat says what stands at a name. Only that is noted, not what is in it.
func (t *tree) Stat(name string) (fs.FileInfo, error) {
	info, err := fs.Stat(t.fsys, name)
	_, known := t.inputs[name]
	switch {
	case errors.Is(err, fs.ErrNotExist):
		t.inputs[name] = absent
		return nil, err
	case err != nil:
		return nil, err
	case !known:
		t.inputs[name] = shape(info)
	}
	return info, nil
}
