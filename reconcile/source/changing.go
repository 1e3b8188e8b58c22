package source

import (
	"context"
	"errors"
	"maps"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/plumbline-dev/plumbline/render"
)

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

// look is a commit beside its first parent; nil where it has none.
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

// compare finds where the two differ; false where that is not known, or nothing is as it was.
func (l *look) compare() bool {
	if l.before == nil {
		return false
	}
	c := comparison{now: l.now, before: l.before, reads: true}
	known := c.folder(".", l.before.root, l.now.root)
	l.difference = c.found
	return known && len(c.found.Below) == 0
}

// differs says whether inputs do.
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
