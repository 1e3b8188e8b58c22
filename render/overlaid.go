package render

import (
	"io"
	"io/fs"
	"path"
	"time"
)

// overlaid is a file system in which some existing files have another text.
type overlaid struct {
	under fs.FS
	files map[string][]byte
}

// Open opens a file or a folder.
func (o overlaid) Open(name string) (fs.File, error) {
	data, changed := o.files[name]
	if !changed {
		return o.under.Open(name)
	}
	return &overlaidFile{overlaidInfo: overlaidInfo{name: path.Base(name), size: int64(len(data))}, data: data}, nil
}

// ReadFile reads a file.
func (o overlaid) ReadFile(name string) ([]byte, error) {
	if data, changed := o.files[name]; changed {
		return append([]byte(nil), data...), nil
	}
	return fs.ReadFile(o.under, name)
}

// Stat describes a file or a folder.
func (o overlaid) Stat(name string) (fs.FileInfo, error) {
	if data, changed := o.files[name]; changed {
		return overlaidInfo{name: path.Base(name), size: int64(len(data))}, nil
	}
	return fs.Stat(o.under, name)
}

// ReadDir lists a folder: no name is added.
func (o overlaid) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(o.under, name) }

// ReadLink returns where a symlink leads.
func (o overlaid) ReadLink(name string) (string, error) { return fs.ReadLink(o.under, name) }

// Lstat describes a name without following symlinks.
func (o overlaid) Lstat(name string) (fs.FileInfo, error) {
	if _, changed := o.files[name]; changed {
		return o.Stat(name)
	}
	return fs.Lstat(o.under, name)
}

// overlaidInfo describes a file with another text.
type overlaidInfo struct {
	name string
	size int64
}

func (i overlaidInfo) Name() string     { return i.name }
func (i overlaidInfo) Size() int64      { return i.size }
func (overlaidInfo) Mode() fs.FileMode  { return 0o444 }
func (overlaidInfo) ModTime() time.Time { return time.Time{} }
func (overlaidInfo) IsDir() bool        { return false }
func (overlaidInfo) Sys() any           { return nil }

// overlaidFile is an open file with another text.
type overlaidFile struct {
	overlaidInfo
	data []byte
	at   int
}

func (f *overlaidFile) Stat() (fs.FileInfo, error) { return f.overlaidInfo, nil }
func (*overlaidFile) Close() error                 { return nil }

func (f *overlaidFile) Read(into []byte) (int, error) {
	if f.at >= len(f.data) {
		return 0, io.EOF
	}
	n := copy(into, f.data[f.at:])
	f.at += n
	return n, nil
}
