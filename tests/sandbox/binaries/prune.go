package binaries

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// unused is how long an entry of the cache is kept after its last use: long enough that two checkouts that share a
// cache do not delete each other's.
const unused = 48 * time.Hour

// Use records that an entry of the cache is used now.
func Use(path string) error {
	now := time.Now()
	if err := os.Chtimes(path, now, now); err != nil {
		return fmt.Errorf("note the use of %s: %w", path, err)
	}
	return nil
}

// Prune removes the entries of the cache that match pattern and have not been used for long, except keep.
func Prune(cache, pattern, keep string) error {
	found, err := filepath.Glob(filepath.Join(cache, pattern))
	if err != nil {
		return fmt.Errorf("list old entries of the cache: %w", err)
	}
	for _, path := range found {
		info, err := os.Stat(path)
		if path == keep || err != nil || time.Since(info.ModTime()) < unused {
			continue
		}
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("remove an old entry of the cache: %w", err)
		}
	}
	return nil
}
