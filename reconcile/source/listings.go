package source

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
)

// listings are the folders that were decoded, each once.
type listings struct {
	mu sync.Mutex
	of map[plumbing.Hash][]entry // sorted by name
	// identities are hashes of the listings of those that were asked for.
	identities map[plumbing.Hash]string
	// entries are all of them.
	entries int
}

func newListings() *listings {
	return &listings{of: map[plumbing.Hash][]entry{}, identities: map[plumbing.Hash]string{}}
}

// folder returns the entries of a folder.
func (t *tree) folder(op, name string, e entry) ([]entry, error) {
	if e.mode == filemode.Submodule {
		return nil, nil
	}
	t.listings.mu.Lock()
	defer t.listings.mu.Unlock()
	if entries, ok := t.listings.of[e.hash]; ok {
		return entries, nil
	}
	listed, err := t.store.folder(e.hash)
	if err != nil {
		return nil, t.failed(op, name, e.hash, err)
	}
	if t.listings.entries += len(listed); t.listings.entries > maxEntries {
		return nil, t.failed(op, name, e.hash, tooManyEntries())
	}
	entries := make([]entry, 0, len(listed))
	for _, l := range listed {
		if !fs.ValidPath(l.Name) || l.Name == "." || strings.Contains(l.Name, "/") {
			return nil, &fs.PathError{Op: op, Path: name, Err: fmt.Errorf("the folder has an entry with the forbidden name %q", l.Name)}
		}
		entries = append(entries, entry{name: l.Name, mode: l.Mode, hash: l.Hash})
	}
	// Git sorts a folder as if its name ended in a slash.
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	t.listings.of[e.hash] = entries
	return entries, nil
}

// identity is a hash of a folder's listing: the names, their modes and kinds.
func (t *tree) identity(name string, e entry) (string, error) {
	entries, err := t.folder("identity", name, e)
	if err != nil {
		return "", err
	}
	t.listings.mu.Lock()
	defer t.listings.mu.Unlock()
	if known, ok := t.listings.identities[e.hash]; ok && e.mode == filemode.Dir {
		return known, nil
	}
	sum := sha256.New()
	for _, e := range entries {
		_, _ = fmt.Fprintf(sum, "%s %s\x00", e.mode, e.name) // a hash takes everything
	}
	identity := hex.EncodeToString(sum.Sum(nil))
	if e.mode == filemode.Dir {
		t.listings.identities[e.hash] = identity
	}
	return identity, nil
}
