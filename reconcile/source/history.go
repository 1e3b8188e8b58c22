package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/plumbline-dev/plumbline/render"
)

// visit is a commit reached while walking a history. It does not keep the message, because a history may have many long
// ones.
type visit struct {
	hash    plumbing.Hash
	parents []plumbing.Hash
	at      time.Time
	// old is true if the commit can be reached from the applied one.
	old bool
}

// history walks from two commits through their ancestors, newest first, like git rev-list.
type history struct {
	store *store
	seen  map[plumbing.Hash]*visit
	next  []*visit
	// whole is false if a reached commit is not in the store.
	whole bool
	// met is true if a commit was reached from both.
	met bool
	// more is true if there are more commits than the limit.
	more bool
}

// since lists the commits, at most limit, that can be reached from head but not from applied, newest first. The list is
// incomplete (whole is false) if applied or a commit in between is missing from the store.
func (s *store) since(head, applied plumbing.Hash, limit int) (commits []*visit, whole bool, err error) {
	commits, h, err := s.walk(head, applied, limit)
	if err != nil {
		return nil, false, err
	}
	return commits, h.whole, nil
}

// walk lists these commits, and also returns the walked history.
func (s *store) walk(head, applied plumbing.Hash, limit int) (commits []*visit, h *history, err error) {
	h = &history{store: s, seen: map[plumbing.Hash]*visit{}, whole: true}
	if err := h.visit(applied, true); err != nil {
		return nil, nil, err
	}
	if err := h.visit(head, false); err != nil {
		return nil, nil, err
	}
	var found []*visit
	for len(found) < limit && slices.ContainsFunc(h.next, isNew) {
		v := popNewest(&h.next)
		if !v.old {
			found = append(found, v)
		}
		for _, parent := range v.parents {
			if err := h.visit(parent, v.old); err != nil {
				return nil, nil, err
			}
		}
	}
	h.more = slices.ContainsFunc(h.next, isNew)
	for _, v := range found {
		if !v.old { // a commit with a wrong clock may become old late
			commits = append(commits, v)
		}
	}
	return commits, h, nil
}

func isNew(v *visit) bool { return !v.old }

// visit reaches a commit from an old commit or a new one.
func (h *history) visit(at plumbing.Hash, old bool) error {
	if v, ok := h.seen[at]; ok {
		h.met = h.met || v.old != old
		if old {
			h.markOld(v)
		}
		return nil
	}
	if !h.store.has(at) {
		// Ancestors of an old commit may be missing; the first commit, applied itself, may not.
		h.whole = h.whole && old && len(h.seen) > 0
		return nil
	}
	commit, err := h.store.commit(at)
	if err != nil {
		return err
	}
	v := &visit{hash: commit.Hash, parents: commit.ParentHashes, at: commit.Committer.When, old: old}
	h.seen[at] = v
	h.next = append(h.next, v)
	return nil
}

// markOld marks a commit and its ancestors as reachable from the applied one.
func (h *history) markOld(v *visit) {
	for rest := []*visit{v}; len(rest) > 0; {
		v, rest = rest[0], rest[1:]
		if v.old {
			continue
		}
		v.old = true
		for _, parent := range v.parents {
			if before, ok := h.seen[parent]; ok {
				rest = append(rest, before)
			}
		}
	}
}

// popNewest removes and returns the newest commit; among commits of the same second, the one that was reached first.
func popNewest(rest *[]*visit) *visit {
	newest := 0
	for i, v := range *rest {
		if v.at.After((*rest)[newest].at) {
			newest = i
		}
	}
	v := (*rest)[newest]
	*rest = slices.Delete(*rest, newest, newest+1)
	return v
}

// maxCommit limits, in bytes, how much of a commit is read, and the size of tags. GitHub accepts up to 64 KiB for a
// commit that changes nothing but its message.
const maxCommit = 1 << 20

// cutMessage is appended to a truncated message.
const cutMessage = "\n\n[the message is longer than 1 MiB: the rest is not read]\n"

// commit reads a commit. A longer message is truncated; otherwise anyone who may push could block all later commits.
func (s *store) commit(h plumbing.Hash) (commit *object.Commit, err error) {
	name := "the commit " + h.String()
	err = s.small(h, name, func(objects *filesystem.Storage) error {
		commit, err = object.GetCommit(objects, h)
		return err
	})
	if errors.As(err, new(*LimitError)) {
		return s.cut(h, name)
	}
	return commit, err
}

// cut reads the beginning of a large commit, which contains everything but the message, without loading the rest.
func (s *store) cut(h plumbing.Hash, name string) (*object.Commit, error) {
	lazy := filesystem.NewStorageWithOptions(osfs.New(s.dir, osfs.WithBoundOS()), cache.NewObjectLRU(objectCache),
		filesystem.Options{ExclusiveAccess: true, LargeObjectThreshold: maxCommit})
	defer func() { _ = lazy.Close() }() // opened for reading: nothing can be lost
	data, err := beginning(lazy, h)
	if err != nil {
		return nil, &StoreError{Err: err}
	}
	if !bytes.Contains(data, []byte("\n\n")) {
		return nil, &LimitError{What: name + " without its message", Limit: maxCommit}
	}
	head := &plumbing.MemoryObject{}
	head.SetType(plumbing.CommitObject)
	if _, err := head.Write(append(bytes.ToValidUTF8(data, nil), cutMessage...)); err != nil {
		return nil, &StoreError{Err: err}
	}
	commit := &object.Commit{}
	if err := commit.Decode(head); err != nil {
		return nil, &StoreError{Err: err}
	}
	commit.Hash = h
	return commit, nil
}

// beginning reads the first maxCommit bytes of a commit.
func beginning(objects *filesystem.Storage, h plumbing.Hash) ([]byte, error) {
	encoded, err := objects.EncodedObject(plumbing.CommitObject, h)
	if err != nil {
		return nil, err
	}
	reader, err := encoded.Reader()
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(reader, maxCommit))
	return data, errors.Join(err, reader.Close())
}

// small reads an object of at most maxCommit bytes.
func (s *store) small(h plumbing.Hash, name string, read func(*filesystem.Storage) error) error {
	var large *LimitError
	err := s.with(func(objects *filesystem.Storage) error {
		size, err := objects.EncodedObjectSize(h)
		if err != nil {
			return err
		}
		if size > maxCommit {
			large = &LimitError{What: name, Limit: maxCommit}
			return nil
		}
		return read(objects)
	})
	switch {
	case err != nil:
		return &StoreError{Err: err}
	case large != nil:
		return large
	}
	return nil
}

// Order is the position of a key's last Snapshot relative to another commit.
type Order string

// The values of Order.
const (
	// OrderUnknown: the available history does not show it.
	OrderUnknown Order = ""
	// OrderNewer: the commit is an ancestor of the Snapshot, or the same commit.
	OrderNewer Order = "Newer"
	// OrderOlder: the Snapshot is an ancestor of the commit. The branch was reset, or a mirror lags behind.
	OrderOlder Order = "Older"
	// OrderDiverged: neither is an ancestor of the other.
	OrderDiverged Order = "Parted"
)

// maxWalked limits the commits that are walked to find the order of two commits.
const maxWalked = 1000

// Order returns the position of the key's last Snapshot relative to a commit, from what the store contains. It does not
// query the host.
func (g *Git) Order(key, commit string) Order {
	g.mu.Lock()
	held := g.holds[key]
	g.mu.Unlock()
	return held.order(commit)
}

// FindOrder is like Order, but if the store does not contain the history in between, it requests that from the host:
// first the ancestors of the Snapshot, then the commit itself with its ancestors, which a host may refuse.
//
// It returns OrderUnknown only with an error that gives the reason: a *HistoryError, the context's, or one of Fetch's.
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
	limits.pack = min(limits.pack, s.store.cloned+maxAdded)
	for _, more := range g.historyRequests(ctx, s.store, req, plumbing.NewHash(commit), limits) {
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
		return OrderUnknown, unknown(fmt.Sprintf("the host does not send enough of the history: %v", refused))
	}
	return OrderUnknown, unknown(fmt.Sprintf("it is not among the %d commits before HEAD, nor HEAD among those before it", maxWalked))
}

// historyRequests returns the requests to a host, cheapest first. limits apply to each response.
func (g *Git) historyRequests(ctx context.Context, s *store, req Request, commit plumbing.Hash, limits limits) []func() error {
	before := func(depth int) func() error {
		return func() error {
			if !s.mayDeepen(depth) {
				return nil
			}
			return g.fetchHistory(ctx, s, req, depth, limits)
		}
	}
	of := func(depth int) func() error {
		return func() error { return g.fetchTo(ctx, s, req, commit, depth, limits) }
	}
	return []func() error{before(firstDepth), of(firstDepth), before(maxWalked), of(maxWalked)}
}

// order returns the position of the held Snapshot relative to a commit.
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

// side tells from which of the two commits a commit can be reached.
type side uint8

const (
	fromHead side = 1 << iota
	fromOther
	fromBoth = fromHead | fromOther
)

// ordering walks from two commits through their ancestors until one reaches the other or neither can: the ancestors of
// a commit that both reach include neither of the two.
type ordering struct {
	store *store
	seen  map[plumbing.Hash]*visit
	sides map[*visit]side
	next  []*visit
	// lacks are the commits with a parent that is missing from the store.
	lacks map[*visit]bool
}

// order returns the position of head relative to another commit. Any of the commits may be missing from the store.
func (s *store) order(head, other plumbing.Hash) (Order, error) {
	o := &ordering{store: s, seen: map[plumbing.Hash]*visit{}, sides: map[*visit]side{}, lacks: map[*visit]bool{}}
	if err := o.visit(nil, head, fromHead); err != nil {
		return OrderUnknown, err
	}
	if !s.has(other) {
		return OrderUnknown, nil
	}
	if err := o.visit(nil, other, fromOther); err != nil {
		return OrderUnknown, err
	}
	for walked := 0; o.open(); walked++ {
		if walked > 2*maxWalked {
			return OrderUnknown, nil
		}
		v := popNewest(&o.next)
		for _, parent := range v.parents {
			if err := o.visit(v, parent, o.sides[v]); err != nil {
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
			return OrderUnknown, nil // head or the other may be an ancestor of what is missing
		}
	}
	return OrderDiverged, nil
}

// open reports whether the walk can continue from a commit that only one of the two reaches.
func (o *ordering) open() bool {
	for _, v := range o.next {
		if o.sides[v] != fromBoth {
			return true
		}
	}
	return false
}

// visit reaches a commit from a side, and marks those of its ancestors that were reached before.
func (o *ordering) visit(child *visit, at plumbing.Hash, from side) error {
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

// mark records that a side reaches a commit and its ancestors.
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

// Since returns the full hashes of the commits, newest first, that the key's last Snapshot reaches but applied does
// not, and that changed an input compared with their first parent. It examines at most limit commits and does not wait:
// known is false if the store does not contain all of them, or if the context ends first.
//
// The list is empty if applied is HEAD or one of its descendants, because the branch was reset. If the two histories
// diverged, it includes all commits on HEAD's side.
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

// FindSince is like Since, but requests the history from the host if it is missing from the store. Usually it is not,
// since a fetch brings all new commits. A store that was cloned after applied is deepened by limit commits, once.
//
// The error is a *HistoryError if applied cannot be found, because it was rewritten or is older than that, or if the
// host or the store's limits prevent fetching the history; the context's; or one of Fetch's.
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

// known lists the commits if the store of the last Snapshot contains all of them. It needs no lock on the slot, because
// a fetch only adds to a store. Another NodeSync's fetch from a hanging host therefore does not block it.
func (h hold) known(applied plumbing.Hash, limit int) (commits []*visit, whole bool) {
	if h.store == nil || !h.store.usable() {
		return nil, false
	}
	commits, whole, err := h.store.since(h.target.commit, applied, limit)
	return commits, whole && err == nil
}

// between lists the commits that head reaches but applied does not, and deepens the store if necessary.
func (g *Git) between(ctx context.Context, s *slot, req Request, head, applied plumbing.Hash, limit int) ([]*visit, error) {
	if s.store == nil || !s.store.usable() {
		return nil, &HistoryError{Since: applied.String(), Reason: "the store has to be cloned again"}
	}
	for {
		commits, whole, err := s.store.since(head, applied, limit)
		if err != nil || whole {
			return commits, err
		}
		if !s.store.mayDeepen(limit + 1) {
			return nil, &HistoryError{Since: applied.String(), Reason: "it is not among the commits before HEAD"}
		}
		limits := g.limits()
		limits.pack = min(limits.pack, s.store.cloned+maxAdded)
		if err := g.fetchHistory(ctx, s.store, req, limit+1, limits); err != nil {
			return nil, err
		}
	}
}

// deepened is the tip and the depth of the last request for more history.
type deepened struct {
	tip   plumbing.Hash
	depth int
}

// mayDeepen reports whether the host may have more of the history than the store.
func (s *store) mayDeepen(depth int) bool {
	return len(s.shallow) > 0 && (s.deepened.tip != s.tip || s.deepened.depth < depth)
}

// fetchHistory fetches depth commits up to the tip. The store still declares itself as shallow as it was cloned, so
// that a host never assumes that it has more than it does.
func (g *Git) fetchHistory(ctx context.Context, s *store, req Request, depth int, limit limits) error {
	err := g.fetchTo(ctx, s, req, plumbing.ZeroHash, depth, limit)
	if err == nil || errors.As(err, new(*HistoryError)) {
		s.deepened = deepened{tip: s.tip, depth: depth}
	}
	return err
}

// fetchTo fetches a commit and its history to the given depth; if commit is zero, those of the request's reference. The
// error is a *HistoryError if the host or the limit prevents that.
func (g *Git) fetchTo(ctx context.Context, s *store, req Request, commit plumbing.Hash, depth int, limit limits) error {
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
	s.cloned += s.bytes - before // a new clone would fetch the same amount again
	var large *LimitError
	if errors.Is(err, errTooMuch) || errors.As(err, &large) {
		err = refused("the commits before it are larger than the store may grow")
	}
	return err
}

// changing returns the commits that changed any of the inputs that were read, compared with their first parent.
func (s *store) changing(ctx context.Context, commits []*visit, read render.Read) ([]string, error) {
	looks := make([]look, 0, len(commits))
	listings := newListings()
	for _, c := range commits {
		one, err := s.newLook(c, listings)
		if err != nil {
			return nil, err
		}
		looks = append(looks, one)
	}
	// Only for the last commit is it known which inputs symlinks lead to. If a symlink was added, removed or changed in
	// between, compare all inputs.
	few := read.Known
	for i := range looks {
		few = few && looks[i].compare()
	}
	var changed []string
	for i, one := range looks {
		inputs := read.Inputs
		if few {
			inputs = one.difference.Among(inputs, read.Linked)
		}
		differs, err := one.differs(ctx, inputs)
		var link *SymlinkError
		switch {
		case ctx.Err() != nil:
			return nil, &HistoryError{
				Since: commits[len(commits)-1].hash.String(), Reason: "to find out which commits have changed the definitions takes too long",
			}
		case errors.As(err, &link): // assume that it changed
			differs = true
		case err != nil:
			return nil, err
		}
		if differs {
			changed = append(changed, commits[i].hash.String())
		}
	}
	return changed, nil
}

// look is a commit with its first parent; before is nil if it has none.
type look struct {
	now, before *tree
	difference  render.Difference
}

func (s *store) newLook(c *visit, listings *listings) (look, error) {
	at := func(commit plumbing.Hash) (*tree, error) {
		root, err := s.root(commit)
		if err != nil {
			return nil, &StoreError{Err: err}
		}
		t := newTree(s, root, commit.String(), 0)
		t.listings = listings
		return t, nil
	}
	now, err := at(c.hash)
	if err != nil || len(c.parents) == 0 {
		return look{now: now}, err
	}
	before, err := at(c.parents[0])
	return look{now: now, before: before}, err
}

// compare finds the differences between the two; false if they are unknown or everything differs.
func (l *look) compare() bool {
	if l.before == nil {
		return false
	}
	c := comparison{now: l.now, before: l.before, reads: true}
	known := c.folder(".", l.before.root, l.now.root)
	l.difference = c.found
	return known && len(c.found.Below) == 0
}

// differs reports whether the inputs differ between the two.
func (l look) differs(ctx context.Context, inputs render.Inputs) (bool, error) {
	at := func(t *tree) (render.Inputs, error) {
		return inputs.At(render.Snapshot{FS: t}.Within(ctx, t.revision, render.Reading))
	}
	now, err := at(l.now)
	before := inputs.Absent()
	if err == nil && l.before != nil {
		before, err = at(l.before)
	}
	return !maps.Equal(now, before), err
}
