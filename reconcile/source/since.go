package source

import (
	"context"
	"errors"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"github.com/plumbline-dev/plumbline/render"
)

// Since returns the full hashes of the commits that the key's last Snapshot
// reaches and applied does not, and that changed an input against their first
// parent, newest first. No more than limit commits are looked at. It waits for nobody:
// known is false where the store does not have all of them, or the context ends first.
//
// There is no commit where applied is HEAD or a later one: the branch was set back.
// Where the two histories have parted, all of HEAD's side counts.
func (g *Git) Since(ctx context.Context, key, applied string, read render.Read, limit int) (changed []string, known bool) {
	g.mu.Lock()
	held := g.holds[key]
	g.mu.Unlock()
	if held.using == nil || !plumbing.IsHash(applied) {
		return nil, false
	}
	commits, whole := held.known(plumbing.NewHash(applied), limit)
	if !whole {
		return nil, false
	}
	changed, err := held.store.changing(ctx, commits, read)
	return changed, err == nil
}

// FindSince is Since, and asks the host where the store does not know. Most often it
// does, since a fetch brings all that is new. A store that was cloned since applied is
// deepened by limit commits, once.
//
// The error is a *HistoryError where applied cannot be found, since it was
// rewritten or lies further back, or where the host or the limits of the store
// do not let the history be seen; the context's; or one of Fetch's.
func (g *Git) FindSince(ctx context.Context, req Request, applied string, read render.Read, limit int) ([]string, error) {
	ctx, cancel := g.bound(ctx)
	defer cancel()
	g.mu.Lock()
	held := g.holds[req.Key]
	g.mu.Unlock()
	if held.using == nil || !plumbing.IsHash(applied) {
		return nil, &HistoryError{Since: applied, Reason: "nothing is known of it"}
	}
	if commits, whole := held.known(plumbing.NewHash(applied), limit); whole {
		return held.store.changing(ctx, commits, read)
	}
	s := held.using
	if err := s.lock(ctx); err != nil {
		return nil, classify(ctx, err, req)
	}
	defer s.unlock()
	commits, err := g.between(ctx, s, req, held.target.commit, plumbing.NewHash(applied), limit)
	if err != nil {
		return nil, classify(ctx, err, req)
	}
	return s.store.changing(ctx, commits, read)
}

// known lists the commits where the store of the last Snapshot has all of them. It
// needs no turn: a fetch adds to a store, and changes nothing of it. Another
// NodeSync's fetch from a host that hangs holds nobody up.
func (h hold) known(applied plumbing.Hash, limit int) (commits []*visit, whole bool) {
	if h.store == nil || !h.store.usable() {
		return nil, false
	}
	commits, whole, err := h.store.since(h.target.commit, applied, limit)
	return commits, whole && err == nil
}

// between lists the commits that head reaches and applied does not, with the
// store deepened where it does not know.
func (g *Git) between(ctx context.Context, s *slot, req Request, head, applied plumbing.Hash, limit int) ([]*visit, error) {
	if s.store == nil || !s.store.usable() {
		return nil, &HistoryError{Since: applied.String(), Reason: "the store has to be cloned again"}
	}
	for {
		commits, whole, err := s.store.since(head, applied, limit)
		if err != nil || whole {
			return commits, err
		}
		if !s.store.deeper(limit + 1) {
			return nil, &HistoryError{Since: applied.String(), Reason: "it is not among the commits before HEAD"}
		}
		limits := g.limits()
		limits.pack = min(limits.pack, s.store.cloned+spare)
		if err := g.deepen(ctx, s.store, req, limit+1, limits); err != nil {
			return nil, err
		}
	}
}

// deepened is the tip of which the history was asked for last, and how much of it.
type deepened struct {
	tip   plumbing.Hash
	depth int
}

// deeper is whether a host may know more of the history than the store has.
func (s *store) deeper(depth int) bool {
	return len(s.shallow) > 0 && (s.deepened.tip != s.tip || s.deepened.depth < depth)
}

// deepen brings so many commits before the tip. The store still calls itself as
// shallow as it was cloned: a host then never takes it for deeper than it is.
func (g *Git) deepen(ctx context.Context, s *store, req Request, depth int, limit limits) error {
	err := g.bring(ctx, s, req, plumbing.ZeroHash, depth, limit)
	if err == nil || errors.As(err, new(*HistoryError)) {
		s.deepened = deepened{tip: s.tip, depth: depth}
	}
	return err
}

// bring brings a commit, with so many before it; what the reference leads to where none
// is named. The error is a *HistoryError where the host or the limit does not let it.
func (g *Git) bring(ctx context.Context, s *store, req Request, commit plumbing.Hash, depth int, limit limits) error {
	refused := func(reason string) error { return &HistoryError{Since: s.tip.String(), Reason: reason} }
	c, err := g.converse(ctx, req)
	if err != nil {
		return err
	}
	defer c.end()
	if !c.ar.Capabilities.Supports(capability.Shallow) {
		return refused("the host gives out no part of a history")
	}
	want := c.target.want
	if !commit.IsZero() {
		want = commit
	}
	r := c.request(want)
	r.Haves, r.Shallows, r.Depth = []plumbing.Hash{s.tip}, s.shallow, packp.DepthCommits(depth)
	res, err := c.session.UploadPack(ctx, r)
	if err != nil {
		if ctx.Err() == nil && unwanted(err) {
			return refused("the host does not give out the commits before it")
		}
		return err
	}
	defer func() { _ = res.Close() }()
	before := s.bytes
	err = s.ingest(ctx, unpacked(r, res), limit)
	s.cloned += s.bytes - before // a new clone would need the same once more
	var large *LimitError
	if errors.Is(err, errTooMuch) || errors.As(err, &large) {
		err = refused("the commits before it are larger than the store may grow")
	}
	return err
}
