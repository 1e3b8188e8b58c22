package source

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/index"

	"github.com/plumbline-dev/plumbline/render"
)

// Untracked are the files below a folder of a checkout that Git does not track, ignored ones
// included: no commit has them, and the daemon does not see them. root is the folder with the
// .git, and below a path in it, with slashes; so are the names, which are sorted. Where root
// has no repository, there are none.
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

// gitFolder is where Git's own files of a checkout are: .git, or the folder that a file of this
// name points to; empty where no repository is.
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

// trackedBy are the names in an index. One that is only meant to be added is in no commit.
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

// readRegular reads one of Git's own files. What is no regular file is refused before it is
// opened: to open a named pipe is to wait for another process to write to it.
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
