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

// visit is a commit on the way through a history. Its message is not kept: a history
// may have many, and long ones.
type visit struct {
	hash    plumbing.Hash
	parents []plumbing.Hash
	at      time.Time
	// old is true if the commit is reached from what was applied.
	old bool
}

// history is a walk from two commits to those before them, the newest first, as
// git rev-list does it.
type history struct {
	store *store
	seen  map[plumbing.Hash]*visit
	next  []*visit
	// whole is false if a commit that was reached is not in the store.
	whole bool
	// met is true if a commit was reached from both.
	met bool
	// more is true if there are more commits than were asked for.
	more bool
}

// since lists the commits, at most limit, that head reaches and applied does
// not, the newest first. It is not the whole of them where the store lacks
// applied, or a commit on the way.
func (s *store) since(head, applied plumbing.Hash, limit int) (commits []*visit, whole bool, err error) {
	commits, h, err := s.walk(head, applied, limit)
	if err != nil {
		return nil, false, err
	}
	return commits, h.whole, nil
}

// walk lists them, and returns what it has seen of the history.
func (s *store) walk(head, applied plumbing.Hash, limit int) (commits []*visit, h *history, err error) {
	h = &history{store: s, seen: map[plumbing.Hash]*visit{}, whole: true}
	if err := h.come(applied, true); err != nil {
		return nil, nil, err
	}
	if err := h.come(head, false); err != nil {
		return nil, nil, err
	}
	var found []*visit
	for len(found) < limit && slices.ContainsFunc(h.next, isNew) {
		v := popNewest(&h.next)
		if !v.old {
			found = append(found, v)
		}
		for _, parent := range v.parents {
			if err := h.come(parent, v.old); err != nil {
				return nil, nil, err
			}
		}
	}
	h.more = slices.ContainsFunc(h.next, isNew)
	for _, v := range found {
		if !v.old { // commits whose clocks were wrong are known late
			commits = append(commits, v)
		}
	}
	return commits, h, nil
}

func isNew(v *visit) bool { return !v.old }

// come reaches a commit, from one that was applied or not.
func (h *history) come(at plumbing.Hash, old bool) error {
	if v, ok := h.seen[at]; ok {
		h.met = h.met || v.old != old
		if old {
			h.age(v)
		}
		return nil
	}
	if !h.store.has(at) {
		// What lies before an old commit is not asked for, but for the first.
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

// age says of a commit, and of all before it, that it is reached from what was
// applied.
func (h *history) age(v *visit) {
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

// popNewest takes the newest commit; of two of one second the one that was reached
// first.
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

// maxCommit is how much of a commit is read, and the largest tag that is, in bytes. Of a commit that changes nothing but its
// message GitHub takes 64 KiB.
const maxCommit = 1 << 20

// cutMessage ends a message that is longer than is read.
const cutMessage = "\n\n[the message is longer than 1 MiB: the rest is not read]\n"

// commit reads a commit. A longer message is cut: a user who may push could otherwise stop all later commits.
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

// cut reads the beginning of a large commit, which has all but its message, without loading the rest.
func (s *store) cut(h plumbing.Hash, name string) (*object.Commit, error) {
	lazy := filesystem.NewStorageWithOptions(osfs.New(s.dir, osfs.WithBoundOS()), cache.NewObjectLRU(objectCache), filesystem.Options{ExclusiveAccess: true, LargeObjectThreshold: maxCommit})
	defer func() { _ = lazy.Close() }() // only reading: nothing can be lost
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

// beginning reads as much of a commit as is read.
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

// small reads an object that is no larger than a commit may be.
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

// open reports whether a commit is left to go on from that only one of the two reaches.
func (o *ordering) open() bool {
	for _, v := range o.next {
		if o.sides[v] != fromBoth {
			return true
		}
	}
	return false
}

// come reaches a commit from a side, and from there what was reached before.
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

// Since returns the full hashes of the commits that the key's last Snapshot
// reaches and applied does not, and that changed an input against their first
// parent, newest first. No more than limit commits are looked at. It waits for nobody:
// known is false if the store does not have all of them, or the context ends first.
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

// changing picks the commits that changed something of what was read, against their first parent.
func (s *store) changing(ctx context.Context, commits []*visit, read render.Read) ([]string, error) {
	looks := make([]look, 0, len(commits))
	listings := newListings()
	for _, c := range commits {
		one, err := s.look(c, listings)
		if err != nil {
			return nil, err
		}
		looks = append(looks, one)
	}
	// Which inputs links lead to is known of the last commit. Where one came or went, or moved,
	// on the way there, all inputs are looked at.
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
			return nil, &HistoryError{Since: commits[len(commits)-1].hash.String(), Reason: "to find out which commits have changed the definitions takes too long"}
		case errors.As(err, &link): // nobody can tell, so that it may have
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

// look is a commit beside its first parent; nil if it has none.
type look struct {
	now, before *tree
	difference  render.Difference
}

func (s *store) look(c *visit, listings *listings) (look, error) {
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

// compare finds where the two differ; false if that is not known, or nothing is as it was.
func (l *look) compare() bool {
	if l.before == nil {
		return false
	}
	c := comparison{now: l.now, before: l.before, reads: true}
	known := c.folder(".", l.before.root, l.now.root)
	l.difference = c.found
	return known && len(c.found.Below) == 0
}

// differs reports whether inputs do.
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
