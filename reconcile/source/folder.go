package source

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/index"

	"github.com/plumbline-dev/plumbline/render"
)

// Folder returns a folder on disk as a Snapshot without a revision. Symlinks cannot lead out of the folder. It is held
// open while the Snapshot is in use.
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

// filesOnDisk is the interface of an os.Root's file system.
type filesOnDisk interface {
	fs.ReadDirFS
	fs.ReadFileFS
	fs.StatFS
	fs.ReadLinkFS
}

// folder is a folder on disk whose content has the same identities as in a commit, so that a plan of the folder and a
// reconcile of that commit read the same. It hides Git's own files, which may contain credentials, also behind
// symlinks.
type folder struct{ filesOnDisk }

var _ render.Identified = folder{}

// Identity is like tree.Identity.
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
			continue // Git cannot store it: a socket, a device
		}
		_, _ = fmt.Fprintf(sum, "%s %s\x00", mode, e.Name()) // hashes never fail to write
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// regular returns an error for anything but a file or folder, before it is opened: opening a named pipe would wait for
// another process to write to it. A missing file is not an error here; its reader reports it.
func (f folder) regular(name string) error {
	if info, err := f.filesOnDisk.Stat(name); err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		return render.ErrIrregular
	}
	return nil
}

// linked explains the error of a path that a symlink leads out of the folder: the error of os.Root names neither the
// symlink nor its target, and is not exported.
func (f folder) linked(name string, err error) error {
	if err == nil || !strings.Contains(err.Error(), "path escapes from parent") {
		return err
	}
	at := ""
	for part := range strings.SplitSeq(name, "/") {
		at = path.Join(at, part)
		if target, unread := f.ReadLink(at); unread == nil {
			return &SymlinkError{Name: at, Target: target, Reason: "leads out of the repository"}
		}
	}
	return err
}

// maxLinks limits the symlinks in one path, like the kernel's limit.
const maxLinks = 40

// Open implements fs.FS.
func (f folder) Open(name string) (fs.File, error) {
	if f.isGits(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	if err := f.regular(name); err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	file, err := f.filesOnDisk.Open(name)
	return file, f.linked(name, err)
}

// ReadFile implements fs.ReadFileFS.
func (f folder) ReadFile(name string) ([]byte, error) {
	if f.isGits(name) {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
	}
	if err := f.regular(name); err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	data, err := f.filesOnDisk.ReadFile(name)
	return data, f.linked(name, err)
}

// ReadDir implements fs.ReadDirFS.
func (f folder) ReadDir(name string) ([]fs.DirEntry, error) {
	if f.isGits(name) {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
	}
	entries, err := f.filesOnDisk.ReadDir(name)
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return isGitFolder(e.Name()) }), f.linked(name, err)
}

// Stat implements fs.StatFS.
func (f folder) Stat(name string) (fs.FileInfo, error) {
	if f.isGits(name) {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	info, err := f.filesOnDisk.Stat(name)
	return info, f.linked(name, err)
}

// isGits reports whether a path is a .git or below one after following symlinks. It is also true for a path with too
// many symlinks.
func (f folder) isGits(name string) bool {
	at, rest, links := ".", strings.Split(name, "/"), 0
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		switch {
		case part == "" || part == ".":
			continue
		case part == "..":
			at = path.Dir(at)
			continue
		case isGitFolder(part):
			return true
		}
		next := path.Join(at, part)
		target, err := f.ReadLink(next)
		if err != nil { // it is not a symlink
			at = next
			continue
		}
		if links++; links > maxLinks {
			return true
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return false
}

// isGitFolder ignores case, as some file systems do.
func isGitFolder(name string) bool { return strings.EqualFold(name, ".git") }

// Untracked returns the files below a folder of a checkout that Git does not track, including ignored ones: no commit
// contains them, so the daemon does not see them. root is the folder with the .git, and below is a slash-separated path
// in it, as are the returned names, which are sorted. If root has no repository, there are none.
func Untracked(root, below string) ([]string, error) {
	git, err := gitFolder(root)
	if git == "" || err != nil {
		return nil, err
	}
	tracked, err := trackedBy(git)
	if err != nil {
		return nil, fmt.Errorf("read which files Git tracks in %s: %w", root, err)
	}
	var names []string
	err = fs.WalkDir(os.DirFS(root), path.Clean(below), func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case isGitFolder(e.Name()) && e.IsDir():
			return fs.SkipDir
		case e.IsDir() || isGitFolder(e.Name()) || tracked[name]:
			return nil
		}
		names = append(names, name)
		return nil
	})
	return names, err
}

// gitFolder returns where Git's own files of a checkout are: .git, or the folder that a file of this name points to;
// empty if there is no repository.
func gitFolder(root string) (string, error) {
	git := filepath.Join(root, ".git")
	info, err := os.Stat(git)
	if err == nil && !info.IsDir() {
		var text []byte
		if text, err = readRegular(git); err == nil {
			to, _ := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir: ")
			if git = to; !filepath.IsAbs(to) {
				git = filepath.Join(root, to)
			}
		}
	}
	if err == nil {
		_, err = os.Lstat(filepath.Join(git, "HEAD"))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return git, err
}

// trackedBy returns the names in an index. An entry with intent to add is in no commit.
func trackedBy(git string) (map[string]bool, error) {
	text, err := readRegular(filepath.Join(git, "index"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // nothing was added yet
	}
	if err != nil {
		return nil, err
	}
	var read index.Index
	if err := index.NewDecoder(bytes.NewReader(text)).Decode(&read); err != nil {
		return nil, err
	}
	tracked := make(map[string]bool, len(read.Entries))
	for _, e := range read.Entries {
		tracked[e.Name] = !e.IntentToAdd
	}
	return tracked, nil
}

// readRegular reads one of Git's own files. It returns an error for anything but a regular file before opening it:
// opening a named pipe would wait for another process to write to it.
func readRegular(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: name, Err: render.ErrIrregular}
	}
	return os.ReadFile(name)
}
