package flux

import (
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"

	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

// files are those of a folder on disk.
type files interface {
	fs.ReadDirFS
	fs.ReadFileFS
	fs.StatFS
	fs.ReadLinkFS
	render.Identified
}

// tree is an unpacked artifact, whose content does not change. Once another one has taken its place every
// read is a *source.StaleError: what is being removed from disk has not left the source.
type tree struct {
	files
	revision string
	gone     atomic.Bool

	mu         sync.Mutex
	identities map[string]string
}

func newTree(dir, revision string) (*tree, error) {
	folder, err := source.Folder(dir)
	if err != nil {
		return nil, err
	}
	of, is := folder.FS.(files)
	if !is {
		return nil, fmt.Errorf("read %s: its file system can do less than is needed", dir)
	}
	return &tree{files: of, revision: revision, identities: map[string]string{}}, nil
}

// current is the error of a read, which is made before it is asked.
func (t *tree) current(err error) error {
	if t.gone.Load() {
		return &source.StaleError{Revision: t.revision}
	}
	return err
}

// Open is that of fs.FS.
func (t *tree) Open(name string) (fs.File, error) {
	file, err := t.files.Open(name)
	return file, t.current(err)
}

// ReadFile is that of fs.ReadFileFS.
func (t *tree) ReadFile(name string) ([]byte, error) {
	data, err := t.files.ReadFile(name)
	return data, t.current(err)
}

// ReadDir is that of fs.ReadDirFS.
func (t *tree) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := t.files.ReadDir(name)
	return entries, t.current(err)
}

// Stat is that of fs.StatFS.
func (t *tree) Stat(name string) (fs.FileInfo, error) {
	info, err := t.files.Stat(name)
	return info, t.current(err)
}

// Lstat is that of fs.ReadLinkFS.
func (t *tree) Lstat(name string) (fs.FileInfo, error) {
	info, err := t.files.Lstat(name)
	return info, t.current(err)
}

// ReadLink is that of fs.ReadLinkFS.
func (t *tree) ReadLink(name string) (string, error) {
	target, err := t.files.ReadLink(name)
	return target, t.current(err)
}

// Identity is that of render.Identified. Each is found out once.
func (t *tree) Identity(name string) (string, error) {
	t.mu.Lock()
	known, is := t.identities[name]
	t.mu.Unlock()
	if is {
		return known, t.current(nil)
	}
	identity, err := t.files.Identity(name)
	if err = t.current(err); err == nil {
		t.mu.Lock()
		t.identities[name] = identity
		t.mu.Unlock()
	}
	return identity, err
}
