package source

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/plumbline-dev/plumbline/internal/wholefile"
)

const (
	// recordName is the file in a store's folder which says that the process after this
	// one can go on with it.
	recordName = "store.json"
	// unclaimed is how long what an earlier process has left waits for its first fetch.
	unclaimed = 10 * time.Minute
)

// record is what has to be in a store's folder. What it names was there before it, and
// whatever else is there came after it.
type record struct {
	// Of is what the store is of.
	Of string `json:"of"`
	// Tip is the last commit that was shown to be whole, Shallow where the history is cut off.
	Tip     plumbing.Hash   `json:"tip"`
	Shallow []plumbing.Hash `json:"shallow,omitempty"`
	// Cloned is the size of the clone, in bytes.
	Cloned int64 `json:"cloned"`
	// Packs are the names of the packs, without their endings.
	Packs []string `json:"packs"`
}

func (r *record) equal(other *record) bool {
	return other != nil && r.Of == other.Of && r.Tip == other.Tip && r.Cloned == other.Cloned &&
		slices.Equal(r.Shallow, other.Shallow) && slices.Equal(r.Packs, other.Packs)
}

// storeOf says what a store can be used for by another process: the same reference of the same URL,
// within the same limits. Credentials are no part of it, as nothing on disk is made of them:
// who asks gets what the host shows to them, from whichever store.
func (g *Git) storeOf(req Request) (string, error) {
	what, err := json.Marshal(struct {
		URL    string
		Ref    any
		Limits []int64
	}{bare(req.URL), wanted(req.Ref), []int64{g.options.MaxBytes, g.options.MaxObjectBytes, g.options.MaxObjects, g.options.MaxMemory}})
	sum := sha256.Sum256(what)
	return hex.EncodeToString(sum[:]), err
}

// Save has the process after this one go on with the stores that are at rest now, and removes
// what an earlier one has left and nobody has asked for. What was fetched since is fetched again.
func (g *Git) Save() error {
	g.mu.Lock()
	slots := make([]*slot, 0, len(g.slots))
	for _, s := range g.slots {
		slots = append(slots, s)
	}
	var left []string
	if len(g.left) > 0 && g.options.Now().Sub(g.swept) > unclaimed {
		for _, dirs := range g.left {
			left = append(left, dirs...)
		}
		g.left = nil
	}
	g.mu.Unlock()
	var errs []error
	for _, s := range slots {
		errs = append(errs, s.save())
	}
	for _, dir := range left {
		errs = append(errs, os.RemoveAll(dir))
	}
	return errors.Join(errs...)
}

// save waits for nobody: a store that is being fetched into is saved the next time.
func (s *slot) save() error {
	select {
	case s.turn <- struct{}{}:
		defer s.unlock()
	default:
		return nil
	}
	if s.store == nil || !s.store.usable() || s.store.tip.IsZero() {
		return nil
	}
	return s.store.save(s.of)
}

func (s *store) save(of string) error {
	packs, err := filepath.Glob(filepath.Join(s.packDir(), "*.pack"))
	if err != nil {
		return err
	}
	for i, name := range packs {
		packs[i] = strings.TrimSuffix(filepath.Base(name), ".pack")
	}
	now := &record{Of: of, Tip: s.tip, Shallow: s.shallow, Cloned: s.cloned, Packs: packs}
	if now.equal(s.saved) {
		return nil
	}
	err = wholefile.Write(filepath.Join(s.dir, recordName), 0o750, func(w io.Writer) error {
		return json.NewEncoder(w).Encode(now)
	})
	if err == nil {
		s.saved = now
	}
	return err
}
