package kustomize

import (
	"errors"
	"io/fs"
	"path"
	"time"

	"github.com/plumbline-dev/plumbline/confine"
)

// remoteFiles is the parent's file system as a child sees it. It asks for each name once.
type remoteFiles struct {
	talk  *confine.Talk
	known map[string]*remoteFile
}

var (
	_ fs.ReadFileFS = (*remoteFiles)(nil)
	_ fs.ReadDirFS  = (*remoteFiles)(nil)
	_ fs.StatFS     = (*remoteFiles)(nil)
)

// remoteFile is what the parent has said of a name.
type remoteFile struct {
	there, folder bool
	data          *string
	names         []any
}

// ask asks, unless the answer is known. What is only looked at is not read: to the
// parent that is a difference.
func (r *remoteFiles) ask(ask, name string) (*remoteFile, error) {
	known := r.known[name]
	switch {
	case known == nil:
	case !known.there, ask == askStat, ask == askRead && known.data != nil, ask == askList && known.names != nil:
		return known, nil
	}
	if err := r.talk.Send(map[string]any{"ask": ask, "name": name}); err != nil {
		return nil, err
	}
	message, err := r.talk.Receive()
	if err != nil {
		return nil, err
	}
	said, _ := message.(map[string]any)
	f := &remoteFile{}
	f.there, _ = said["there"].(bool)
	f.folder, _ = said["folder"].(bool)
	f.names, _ = said["names"].([]any)
	if data, ok := said["data"].(string); ok {
		f.data = &data
	}
	r.known[name] = f
	return f, nil
}

// ReadFile reads a file.
func (r *remoteFiles) ReadFile(name string) ([]byte, error) {
	f, err := r.ask(askRead, name)
	switch {
	case err != nil:
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	case !f.there:
		return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
	case f.data == nil:
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("is a directory")}
	}
	return []byte(*f.data), nil
}

// ReadDir lists a folder. The entries know only their names.
func (r *remoteFiles) ReadDir(name string) ([]fs.DirEntry, error) {
	f, err := r.ask(askList, name)
	switch {
	case err != nil:
		return nil, &fs.PathError{Op: "list", Path: name, Err: err}
	case !f.there:
		return nil, &fs.PathError{Op: "list", Path: name, Err: fs.ErrNotExist}
	}
	entries := make([]fs.DirEntry, 0, len(f.names))
	for _, one := range f.names {
		base, _ := one.(string)
		entries = append(entries, fs.FileInfoToDirEntry(remoteInfo{name: base}))
	}
	return entries, nil
}

// Stat says whether a name is a file or a folder.
func (r *remoteFiles) Stat(name string) (fs.FileInfo, error) {
	f, err := r.ask(askStat, name)
	switch {
	case err != nil:
		return nil, &fs.PathError{Op: "stat", Path: name, Err: err}
	case !f.there:
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	return remoteInfo{name: path.Base(name), folder: f.folder}, nil
}

// Open is there to be an fs.FS: kustomize opens nothing.
func (r *remoteFiles) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: errors.ErrUnsupported}
}

// remoteInfo is as much as is known of a file.
type remoteInfo struct {
	name   string
	folder bool
}

func (i remoteInfo) Name() string       { return i.name }
func (i remoteInfo) Size() int64        { return 0 }
func (i remoteInfo) ModTime() time.Time { return time.Time{} }
func (i remoteInfo) IsDir() bool        { return i.folder }
func (i remoteInfo) Sys() any           { return nil }

func (i remoteInfo) Mode() fs.FileMode {
	if i.folder {
		return fs.ModeDir | 0o555
	}
	return 0o444
}
