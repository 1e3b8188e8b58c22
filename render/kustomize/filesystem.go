package kustomize

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"sigs.k8s.io/kustomize/kyaml/filesys"
)

var errReadOnly = errors.New("the file system is read-only")

// locked shows an fs.FS to kustomize as a disk with nothing else on it, whose
// root is the root of the fs.FS.
type locked struct {
	fsys fs.FS
	// instead are files whose text is another one than the file system's.
	instead map[string][]byte
	// failure is the first error of reading that is more than a missing file:
	// kustomize takes any for a missing one.
	failure error
}

var _ filesys.FileSystem = (*locked)(nil)

// inside turns a path of kustomize's into one of the fs.FS. Above the root
// there is the root.
func inside(name string) string {
	cleaned := strings.TrimPrefix(path.Clean("/"+filepath.ToSlash(name)), "/")
	if cleaned == "" {
		return "."
	}
	return cleaned
}

func (l *locked) ReadFile(name string) ([]byte, error) {
	at := inside(name)
	if text, ok := l.instead[at]; ok {
		return text, nil
	}
	data, err := fs.ReadFile(l.fsys, at)
	if err == nil {
		err = readable(at, data)
	}
	if err != nil {
		if !l.IsDir(name) {
			l.note(err)
		}
		return nil, err
	}
	return data, nil
}

// note keeps the first error that is more than a missing file.
func (l *locked) note(err error) {
	if l.failure == nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		l.failure = err
	}
}

func (l *locked) stat(name string) (fs.FileInfo, error) {
	info, err := fs.Stat(l.fsys, inside(name))
	if err != nil {
		l.note(err)
	}
	return info, err
}

func (l *locked) IsDir(name string) bool {
	info, err := l.stat(name)
	return err == nil && info.IsDir()
}

func (l *locked) Exists(name string) bool {
	_, err := l.stat(name)
	return err == nil
}

func (l *locked) CleanedAbs(name string) (filesys.ConfirmedDir, string, error) {
	at := inside(name)
	info, err := l.stat(at)
	if err != nil {
		return "", "", err
	}
	full := path.Join("/", at)
	if info.IsDir() {
		return filesys.ConfirmedDir(full), "", nil
	}
	return filesys.ConfirmedDir(path.Dir(full)), path.Base(full), nil
}

func (l *locked) ReadDir(name string) ([]string, error) {
	entries, err := fs.ReadDir(l.fsys, inside(name))
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, nil
}

func (l *locked) Open(name string) (filesys.File, error) {
	return nil, fmt.Errorf("open %s: %w", name, errReadOnly)
}

func (l *locked) Glob(pattern string) ([]string, error) {
	return nil, fmt.Errorf("match %s: patterns are not supported", pattern)
}

func (l *locked) Walk(name string, _ filepath.WalkFunc) error {
	return fmt.Errorf("walk %s: not supported", name)
}

func (l *locked) Create(name string) (filesys.File, error) {
	return nil, fmt.Errorf("create %s: %w", name, errReadOnly)
}

func (l *locked) Mkdir(name string) error { return fmt.Errorf("make %s: %w", name, errReadOnly) }

func (l *locked) MkdirAll(name string) error { return fmt.Errorf("make %s: %w", name, errReadOnly) }

func (l *locked) RemoveAll(name string) error { return fmt.Errorf("remove %s: %w", name, errReadOnly) }

func (l *locked) WriteFile(name string, _ []byte) error {
	return fmt.Errorf("write %s: %w", name, errReadOnly)
}
