package source

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// mostLinks is how many symlinks one path may go over, as for the kernel.
const mostLinks = 40

// Open is that of fs.FS.
func (f folder) Open(name string) (fs.File, error) {
	if f.isGits(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	if err := f.regular(name); err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return f.filesOnDisk.Open(name)
}

// ReadFile is that of fs.ReadFileFS.
func (f folder) ReadFile(name string) ([]byte, error) {
	if f.isGits(name) {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
	}
	if err := f.regular(name); err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return f.filesOnDisk.ReadFile(name)
}

// ReadDir is that of fs.ReadDirFS.
func (f folder) ReadDir(name string) ([]fs.DirEntry, error) {
	if f.isGits(name) {
		return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
	}
	entries, err := f.filesOnDisk.ReadDir(name)
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return isGitFolder(e.Name()) }), err
}

// Stat is that of fs.StatFS.
func (f folder) Stat(name string) (fs.FileInfo, error) {
	if f.isGits(name) {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	return f.filesOnDisk.Stat(name)
}

// isGits says whether a path leads to a .git or below it, symlinks followed. A path over too
// many symlinks is counted as one that does.
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
		if err != nil { // it is no symlink
			at = next
			continue
		}
		if links++; links > mostLinks {
			return true
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return false
}

// isGitFolder compares as file systems do that know no case.
func isGitFolder(name string) bool { return strings.EqualFold(name, ".git") }
