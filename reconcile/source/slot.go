package source

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// identity is what makes two requests one: it is made of secrets, and is kept only in memory.
type identity [sha256.Size]byte

func identify(req Request) (identity, error) {
	what, err := json.Marshal(struct {
		URL         string
		Ref         v1alpha1.GitRef
		Credentials Credentials
	}{req.URL, wanted(req.Ref), req.Credentials})
	return sha256.Sum256(what), err
}

// wanted is what a reference stands for.
func wanted(ref v1alpha1.GitRef) v1alpha1.GitRef {
	if ref == (v1alpha1.GitRef{}) {
		ref.Branch = v1alpha1.DefaultBranch
	}
	return ref
}

// slot has the store of one identity.
type slot struct {
	identity identity
	turn     chan struct{} // has room for the one whose turn it is

	// What follows belongs to the one whose turn it is.
	store   *store
	of      string // what a store is of, for another process
	last    answer
	refused refusal
}

// refusal remembers which commit was too large, so that it is not fetched again
// and again.
type refusal struct {
	commit plumbing.Hash
	err    error
}

// lock waits for its turn.
func (s *slot) lock(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *slot) unlock() { <-s.turn }

// hold is what one key keeps from being removed: the slot that its last
// Snapshot came from, and the one that it asks now. They differ from a change of
// URL, reference or credentials until the first success: a NodeSync whose new
// credentials are wrong goes on with the Snapshot that it has.
type hold struct {
	using, asking *slot
	// store is that of the last Snapshot, as long as using has it still.
	store *store
	// target is what the key's last Snapshot is of.
	target target
}

// ask finds or makes the slot of a request, and holds it.
func (g *Git) ask(req Request) (*slot, error) {
	id, err := identify(req)
	if err != nil {
		return nil, &URLError{URL: bare(req.URL), Reason: "cannot be read"}
	}
	g.mu.Lock()
	s, ok := g.slots[id]
	if !ok {
		s = &slot{identity: id, turn: make(chan struct{}, 1)}
		g.slots[id] = s
	}
	before := g.holds[req.Key]
	g.holds[req.Key] = hold{using: before.using, asking: s, store: before.store, target: before.target}
	left := g.abandoned(before)
	g.mu.Unlock()
	return s, empty(left)
}

// settle notes what a key was given, and drops what it has used before. It is
// the slot's turn.
func (g *Git) settle(key string, s *slot, t target) error {
	g.mu.Lock()
	before, ok := g.holds[key]
	if !ok {
		g.mu.Unlock()
		return nil // forgotten meanwhile
	}
	g.holds[key] = hold{using: s, asking: before.asking, store: s.store, target: t}
	left := g.abandoned(before)
	g.mu.Unlock()
	return empty(left)
}

// Forget drops what a key holds. A store that no key holds is removed.
func (g *Git) Forget(key string) error {
	g.mu.Lock()
	before := g.holds[key]
	delete(g.holds, key)
	left := g.abandoned(before)
	g.mu.Unlock()
	return empty(left)
}

// empty removes the stores of slots.
func empty(slots []*slot) (err error) {
	for _, s := range slots {
		s.turn <- struct{}{}
		if s.store != nil {
			err = errors.Join(err, s.store.remove())
		}
		s.unlock()
	}
	return err
}

// abandoned takes those slots of a former hold off the list that no key holds
// any more. g.mu is held.
func (g *Git) abandoned(before hold) []*slot {
	held := map[*slot]bool{nil: true}
	for _, h := range g.holds {
		held[h.using], held[h.asking] = true, true
	}
	var left []*slot
	for _, s := range []*slot{before.using, before.asking} {
		if !held[s] {
			held[s] = true
			delete(g.slots, s.identity)
			left = append(left, s)
		}
	}
	return left
}
