package source

import (
	"os"
	"path/filepath"
	"strconv"
)

// dir is where the stores are.
func (g *Git) dir() string { return filepath.Join(g.options.Dir, "stores") }

// sweep makes room at the first fetch: of what an earlier process has left it keeps the stores that
// have a record.
func (g *Git) sweep() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.swept.IsZero() {
		return nil
	}
	if err := os.MkdirAll(g.dir(), 0o750); err != nil {
		return &StoreError{Err: err}
	}
	entries, err := os.ReadDir(g.dir())
	if err != nil {
		return &StoreError{Err: err}
	}
	g.left = map[string][]string{}
	for _, entry := range entries {
		dir := filepath.Join(g.dir(), entry.Name())
		number, err := strconv.Atoi(entry.Name())
		if has, unread := readRecord(dir); err == nil && unread == nil {
			g.left[has.Of] = append(g.left[has.Of], dir)
			g.stores = max(g.stores, number)
		} else if err := os.RemoveAll(dir); err != nil {
			return &StoreError{Err: err}
		}
	}
	g.swept = g.options.Now()
	return nil
}

// nextDir is a folder for a new store. Its name says nothing of what is in it,
// which was fetched with a secret.
func (g *Git) nextDir() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stores++
	return filepath.Join(g.dir(), strconv.Itoa(g.stores))
}
