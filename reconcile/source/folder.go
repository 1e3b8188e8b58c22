package source

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"github.com/plumbline-dev/plumbline/render"
)

// Folder is a folder on disk as a Snapshot, without a revision. No symlink in
// it leads out of it. It is held open for as long as the Snapshot is in use.
func Folder(dir string) (*render.Snapshot, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("read the folder %s: %w", dir, err)
	}
	files, ok := root.FS().(filesOnDisk)
	if !ok {
		return &render.Snapshot{FS: root.FS()}, nil
	}
	return &render.Snapshot{FS: folder{files}}, nil
}

// filesOnDisk is what the file system of an os.Root can do.
type filesOnDisk interface {
	fs.ReadDirFS
	fs.ReadFileFS
	fs.StatFS
	fs.ReadLinkFS
}

// folder is a folder on disk whose content has the identities that a commit of it would
// have: a plan of it, and a pass over that commit, have read the same. Git's own files, which
// may have credentials in them, are not there, whichever symlink leads to them.
type folder struct{ filesOnDisk }

var _ render.Identified = folder{}

// Identity is that of tree.Identity.
func (f folder) Identity(name string) (string, error) {
	info, err := f.Stat(name)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		data, err := f.ReadFile(name)
		if err != nil {
			return "", err
		}
		return plumbing.ComputeHash(plumbing.BlobObject, data).String(), nil
	}
	entries, err := f.ReadDir(name)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return "", err
		}
		mode, err := filemode.NewFromOSFileMode(info.Mode())
		if err != nil {
			continue // Git has no such thing: a socket, a device
		}
		_, _ = fmt.Fprintf(sum, "%s %s\x00", mode, e.Name()) // a hash takes everything
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// regular refuses what is neither a file nor a folder, before it is opened: to open a named
// pipe is to wait for another process to write to it. What is not there is for others to say.
func (f folder) regular(name string) error {
	if info, err := f.filesOnDisk.Stat(name); err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		return render.ErrIrregular
	}
	return nil
}
