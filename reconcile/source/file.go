package source

import (
	"bytes"
	"io"
	"io/fs"
	"time"
)

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
