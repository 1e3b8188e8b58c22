package source

import (
	"slices"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// visit is a commit on the way through a history. Its message is not kept: a history
// may have many, and long ones.
type visit struct {
	hash    plumbing.Hash
	parents []plumbing.Hash
	at      time.Time
	// old is true where the commit is reached from what was applied.
	old bool
}

// history is a walk from two commits to those before them, the newest first, as
// git rev-list does it.
type history struct {
	store *store
	seen  map[plumbing.Hash]*visit
	next  []*visit
	// whole is false where the store lacks a commit that was come to.
	whole bool
	// met is true where a commit was reached from both.
	met bool
	// more is true where there are more commits than were asked for.
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

// popNewest takes the newest commit; of two of one second the one that was come to
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

// maxCommit is the largest commit or tag that is read on the way through a history,
// in bytes. Of one that changes nothing but its message GitHub takes 64 KiB.
const maxCommit = 1 << 20

// commit reads a commit.
func (s *store) commit(h plumbing.Hash) (commit *object.Commit, err error) {
	err = s.small(h, "the commit "+h.String(), func(objects *filesystem.Storage) error {
		commit, err = object.GetCommit(objects, h)
		return err
	})
	return commit, err
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
