package source

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"
)

// Order is how the last Snapshot of a key stands to another commit.
type Order string

// The values of Order.
const (
	// OrderUnknown: the history that is known does not tell.
	OrderUnknown Order = ""
	// OrderNewer: the commit is an ancestor of the Snapshot, or is it.
	OrderNewer Order = "Newer"
	// OrderOlder: the Snapshot is an ancestor of the commit. The branch was set back, or a
	// mirror lags behind.
	OrderOlder Order = "Older"
	// OrderParted: neither is an ancestor of the other.
	OrderParted Order = "Parted"
)

// mostWalked is how many commits are walked to find out how two stand to each other.
const mostWalked = 1000

// Order says how the key's last Snapshot stands to a commit, by what the store has. It
// asks nobody.
func (g *Git) Order(key, commit string) Order {
	g.mu.Lock()
	held := g.holds[key]
	g.mu.Unlock()
	return held.order(commit)
}

// FindOrder is Order, and asks the host for the history in between where the store does
// not have it: for what lies before the Snapshot, then for the commit itself and what
// lies before that, which a host may refuse.
//
// The order is OrderUnknown only with an error, which says why: a *HistoryError, the
// context's, or one of Fetch's.
func (g *Git) FindOrder(ctx context.Context, req Request, commit string) (Order, error) {
	ctx, cancel := g.bound(ctx)
	defer cancel()
	g.mu.Lock()
	held := g.holds[req.Key]
	g.mu.Unlock()
	if found := held.order(commit); found != OrderUnknown {
		return found, nil
	}
	unknown := func(reason string) error { return &HistoryError{Since: commit, Reason: reason} }
	if held.using == nil || !plumbing.IsHash(commit) {
		return OrderUnknown, unknown("nothing is known of it")
	}
	s := held.using
	if err := s.lock(ctx); err != nil {
		return OrderUnknown, classify(ctx, err, req)
	}
	defer s.unlock()
	if s.store != held.store || !s.store.usable() {
		return OrderUnknown, &StaleError{Revision: held.target.revision()}
	}
	var refused error
	limits := g.limits()
	limits.pack = min(limits.pack, s.store.cloned+spare)
	for _, more := range g.histories(ctx, s.store, req, plumbing.NewHash(commit), limits) {
		err := more()
		if err != nil && !errors.As(err, new(*HistoryError)) {
			return OrderUnknown, classify(ctx, err, req)
		}
		refused = errors.Join(refused, err)
		if found := held.order(commit); found != OrderUnknown {
			return found, nil
		}
	}
	if refused != nil {
		return OrderUnknown, unknown(fmt.Sprintf("the host does not give out enough of the history: %v", refused))
	}
	return OrderUnknown, unknown(fmt.Sprintf("it is not among the %d commits before HEAD, nor HEAD among those before it", mostWalked))
}

// histories are the questions to a host, the cheapest first. limits are those of an answer.
func (g *Git) histories(ctx context.Context, s *store, req Request, commit plumbing.Hash, limits limits) []func() error {
	before := func(depth int) func() error {
		return func() error {
			if !s.deeper(depth) {
				return nil
			}
			return g.deepen(ctx, s, req, depth, limits)
		}
	}
	of := func(depth int) func() error {
		return func() error { return g.bring(ctx, s, req, commit, depth, limits) }
	}
	return []func() error{before(firstDepth), of(firstDepth), before(mostWalked), of(mostWalked)}
}

// order is how what a key holds stands to a commit.
func (h hold) order(commit string) Order {
	if h.store == nil || !h.store.usable() || !plumbing.IsHash(commit) {
		return OrderUnknown
	}
	other := plumbing.NewHash(commit)
	if h.target.commit == other {
		return OrderNewer
	}
	if !h.store.has(h.target.commit) {
		return OrderUnknown
	}
	found, err := h.store.order(h.target.commit, other)
	if err != nil {
		return OrderUnknown
	}
	return found
}

// side is from which of two commits another one is reached.
type side uint8

const (
	fromHead side = 1 << iota
	fromOther
	fromBoth = fromHead | fromOther
)

// ordering walks from two commits to those before them until one leads to the other, or
// neither can: what lies before a commit that both reach cannot be either of them.
type ordering struct {
	store *store
	seen  map[plumbing.Hash]*visit
	sides map[*visit]side
	next  []*visit
	// lacks are the commits that have a parent which the store does not have.
	lacks map[*visit]bool
}

// order says how head stands to another commit, of which the store may lack anything.
func (s *store) order(head, other plumbing.Hash) (Order, error) {
	o := &ordering{store: s, seen: map[plumbing.Hash]*visit{}, sides: map[*visit]side{}, lacks: map[*visit]bool{}}
	if err := o.come(nil, head, fromHead); err != nil {
		return OrderUnknown, err
	}
	if !s.has(other) {
		return OrderUnknown, nil
	}
	if err := o.come(nil, other, fromOther); err != nil {
		return OrderUnknown, err
	}
	for walked := 0; o.open(); walked++ {
		if walked > 2*mostWalked {
			return OrderUnknown, nil
		}
		v := popNewest(&o.next)
		for _, parent := range v.parents {
			if err := o.come(v, parent, o.sides[v]); err != nil {
				return OrderUnknown, err
			}
		}
		switch {
		case o.sides[o.seen[head]] == fromBoth:
			return OrderOlder, nil
		case o.sides[o.seen[other]] == fromBoth:
			return OrderNewer, nil
		}
	}
	for v := range o.lacks {
		if o.sides[v] != fromBoth {
			return OrderUnknown, nil // head, or the other, may lie before what is missing
		}
	}
	return OrderParted, nil
}

// open says whether a commit is left to go on from that only one of the two reaches.
func (o *ordering) open() bool {
	for _, v := range o.next {
		if o.sides[v] != fromBoth {
			return true
		}
	}
	return false
}

// come reaches a commit from a side, and from there what was come to before.
func (o *ordering) come(child *visit, at plumbing.Hash, from side) error {
	if v, ok := o.seen[at]; ok {
		o.mark(v, from)
		return nil
	}
	if !o.store.has(at) {
		if child != nil {
			o.lacks[child] = true
		}
		return nil
	}
	commit, err := o.store.commit(at)
	if err != nil {
		return err
	}
	v := &visit{hash: commit.Hash, parents: commit.ParentHashes, at: commit.Committer.When}
	o.seen[at], o.sides[v] = v, from
	o.next = append(o.next, v)
	return nil
}

// mark says of a commit, and of all before it, that a side reaches it.
func (o *ordering) mark(v *visit, from side) {
	for rest := []*visit{v}; len(rest) > 0; {
		v, rest = rest[0], rest[1:]
		if o.sides[v]|from == o.sides[v] {
			continue
		}
		o.sides[v] |= from
		for _, parent := range v.parents {
			if before, ok := o.seen[parent]; ok {
				rest = append(rest, before)
			}
		}
	}
}
