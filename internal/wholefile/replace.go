package wholefile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Change is a new content for an existing file.
type Change struct {
	// Path of a regular file; Before is its content, which the file must still have.
	Path          string
	Before, After []byte
}

// Replace replaces the contents of files, in order, each atomically and with its permissions. Everything that may fail
// comes first: all new contents are written next to their files. If a file cannot be replaced nevertheless, those before
// it get their contents back. After an error no file has changed, unless the error names it.
func Replace(changes []Change) error { return replace(changes, os.Rename) }

func replace(changes []Change, rename func(from, to string) error) error {
	staged := make([]string, 0, len(changes))
	defer func() {
		for _, name := range staged {
			_ = os.Remove(name) // it was renamed, or the error that is returned matters more
		}
	}()
	for _, change := range changes {
		name, err := stage(change.Path, change.Before, change.After)
		if err != nil {
			return err
		}
		staged = append(staged, name)
	}
	for i, change := range changes {
		err := rename(staged[i], change.Path)
		if err == nil {
			continue
		}
		for _, done := range changes[:i] {
			name, undo := stage(done.Path, done.After, done.Before)
			if undo == nil {
				staged = append(staged, name)
				undo = rename(name, done.Path)
			}
			if undo != nil {
				err = errors.Join(err, fmt.Errorf("%s has been replaced, and cannot be restored: %w", done.Path, undo))
			}
		}
		return err
	}
	return nil
}

// stage writes a new content next to a file, and returns the name of the new file. It fails if the file may not be
// written, or has changed.
func stage(path string, before, after []byte) (name string, err error) {
	old, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, old.Close()) }()
	info, err := old.Stat()
	if err != nil {
		return "", err
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, before) {
		return "", errors.Join(err, fmt.Errorf("%s has changed since it was read", path))
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return "", err
	}
	_, err = file.Write(after)
	if err = errors.Join(err, file.Chmod(info.Mode().Perm()), file.Sync(), file.Close()); err != nil {
		_ = os.Remove(file.Name()) // the first error matters
		return "", err
	}
	return file.Name(), nil
}
