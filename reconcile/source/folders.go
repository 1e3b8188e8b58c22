package source

import (
	"os"
	"path/filepath"
	"strconv"
)

// dir is where the stores are.
func (g *Git) dir() string { return filepath.Join(g.options.Dir, "stores") }

// sweep makes room at the first fetch. A store does not outlive its process:
// what a killed one has left may be half-written.
func (g *Git) sweep() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.swept {
		return nil
	}
	if err := os.RemoveAll(g.dir()); err != nil {
		return &StoreError{Err: err}
	}
	if err := os.MkdirAll(g.dir(), 0o750); err != nil {
		return &StoreError{Err: err}
	}
	g.swept = true
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
