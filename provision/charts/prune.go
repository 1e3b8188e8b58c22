package charts

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	// maxVersions is how many versions the cache keeps beside those in force: a cluster
	// has one, or two during an upgrade, and a folder may serve several processes.
	maxVersions = 8
	// settling is how long a file is kept that no version names: another
	// process may be about to name it.
	settling = time.Hour
)

// prune bounds the cache: it keeps the versions that are in force or were resolved
// last, and the archives and signatures that they name.
func (s *Store) prune() error {
	names, newest, err := s.memos.newestFirst()
	if err != nil {
		return err
	}
	var failed error
	named, others := map[string]bool{}, 0
	for _, name := range names {
		if !s.isInForce(name) {
			others++
		}
		if others > maxVersions && !s.isInForce(name) {
			failed = errors.Join(failed, remove(name))
			continue
		}
		raw, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("prune the chart cache: %w", err)
		}
		known := parse(raw)
		if known == (memo{}) {
			continue
		}
		named[s.blobs.path(known.CRD.Content)] = true
		named[s.blobs.path(known.Controller.Content)] = true
		named[s.blobs.signaturePath(known.CRD.Manifest)] = true
		named[s.blobs.signaturePath(known.Controller.Manifest)] = true
	}
	for _, dir := range []string{s.blobs.dir, s.memos.dir} {
		failed = errors.Join(failed, removeUnnamed(dir, named, newest.Add(-settling)))
	}
	return failed
}

func (s *Store) isInForce(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inForce[path]
}

// newestFirst returns the files of the versions, and when the newest was
// written: the cache's own clock.
func (m memos) newestFirst() (names []string, newest time.Time, err error) {
	names, err = filepath.Glob(filepath.Join(m.dir, "*.json"))
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("prune the chart cache: %w", err)
	}
	written := map[string]time.Time{}
	for _, name := range names {
		if info, err := os.Stat(name); err == nil { // another process may have pruned it
			written[name] = info.ModTime()
			if info.ModTime().After(newest) {
				newest = info.ModTime()
			}
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(written[b].Compare(written[a]), cmp.Compare(a, b))
	})
	return names, newest, nil
}

// removeUnnamed removes the archives that no version names, and what a process
// that was killed has left half written, where they are older than a time.
func removeUnnamed(dir string, named map[string]bool, before time.Time) error {
	var failed error
	for _, pattern := range []string{"*.tgz", "*" + signatureFile, ".new-*"} {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return fmt.Errorf("prune the chart cache: %w", err)
		}
		for _, name := range names {
			info, err := os.Stat(name)
			if err != nil || named[name] || info.ModTime().After(before) {
				continue
			}
			failed = errors.Join(failed, remove(name))
		}
	}
	return failed
}

func remove(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("prune the chart cache: %w", err)
	}
	return nil
}
