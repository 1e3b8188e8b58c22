package source

import (
	"context"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
)

// undone lists the commits that have changed files since From.
func (w *reverting) undone(ctx context.Context, names []string) (found []Undone, more bool, err error) {
	commits, h, err := w.store.walk(w.head, plumbing.NewHash(w.From), maxUndone)
	if err != nil {
		return nil, false, err
	}
	for _, v := range commits {
		if len(v.parents) > 0 && !w.store.has(v.parents[0]) {
			continue // what it has changed is not known
		}
		commit, err := w.store.commit(v.hash)
		if err != nil {
			return nil, false, err
		}
		before := plumbing.ZeroHash
		if len(v.parents) > 0 {
			if before, err = w.store.root(v.parents[0]); err != nil {
				return nil, false, err
			}
		}
		changes, err := w.changes(ctx, before, commit.TreeHash, names)
		if err != nil {
			return nil, false, err
		}
		if changes {
			subject, _, _ := strings.Cut(commit.Message, "\n")
			found = append(found, Undone{Commit: v.hash.String(), Subject: subject})
		}
	}
	return found, h.more || !h.whole || !h.met, nil
}

// changes says whether one of the files differs in two trees.
func (w *reverting) changes(ctx context.Context, before, now plumbing.Hash, names []string) (bool, error) {
	if before == now {
		return false, nil
	}
	for _, name := range names {
		a, err := w.files.at(ctx, before, name)
		if err != nil {
			return false, err
		}
		b, err := w.files.at(ctx, now, name)
		if err != nil {
			return false, err
		}
		if !sameFile(a, b) {
			return true, nil
		}
	}
	return false, nil
}
