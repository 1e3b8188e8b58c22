package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/memory"

	"github.com/plumbline-dev/plumbline/render"
)

// Revert is a commit on top of a branch that takes files back to what they were.
type Revert struct {
	// Branch is the new one that it is pushed to, below plumbline/.
	Branch string
	// From is the commit whose files are taken, and Bad the one that has changed them since; both
	// full hashes.
	From, Bad string
	// Within returns what says which files may be taken back, by their path from the repository's root;
	// from is what From has.
	Within  func(ctx context.Context, from *render.Snapshot) func(name string) bool
	Message string
	At      time.Time
}

// Reverted is what became of a Revert.
type Reverted struct {
	// Commit is the one that the branch has now; empty where there is nothing to take back.
	Commit string
	// Head is the commit below it.
	Head string
	// Files are those that are taken back, and Newer those of them that other commits have changed
	// since Bad. Left are those that have been changed too, and are not within the Revert.
	Files, Newer, Left []string
	// Undone are the commits that have changed Files since From, the newest first, as far as they
	// are known. More says that there may be others.
	Undone []Undone
	More   bool
}

// Undone is a commit that is taken back, or a part of it.
type Undone struct {
	Commit, Subject string
}

const (
	// maxUndone is how many commits are looked at for Undone.
	maxUndone = 100
	// author is who commits. No host can give out the address: https://www.rfc-editor.org/rfc/rfc2606
	author, authorEmail = "plumbline", "plumbline@plumbline.invalid"
)

// Revert pushes a commit to a new branch. A branch of that name that has just such a commit is left
// as it is, and counts as pushed; one that has another is a *BranchError. It works on a clone of its
// own, and keeps no fetch waiting.
//
// The error is a *PushError or a *GraftError too, or one of Fetch's.
func (g *Git) Revert(ctx context.Context, req Request, r Revert) (Reverted, error) {
	ctx, cancel := g.bound(ctx)
	defer cancel()
	if err := proposes(r.Branch); err != nil {
		return Reverted{}, err
	}
	if !plumbing.IsHash(r.From) || !plumbing.IsHash(r.Bad) {
		return Reverted{}, &HistoryError{Since: r.From, Reason: "it is no commit"}
	}
	if err := g.sweep(); err != nil {
		return Reverted{}, err
	}
	s, err := newStore(g.nextDir(), g.room, g.options.Space)
	if err != nil {
		return Reverted{}, err
	}
	work := &reverting{git: g, store: s, files: &lookup{store: s}, req: req, Revert: r}
	done, err := work.run(ctx)
	return done, errors.Join(classify(ctx, err, req), s.remove())
}

// reverting is the work of one Revert.
type reverting struct {
	Revert
	git   *Git
	store *store
	files *lookup
	req   Request

	head      plumbing.Hash
	from, bad plumbing.Hash // trees
}

func (w *reverting) run(ctx context.Context) (Reverted, error) {
	if err := w.fetch(ctx); err != nil {
		return Reverted{}, err
	}
	done, take, err := w.compare(ctx)
	if err != nil || len(take) == 0 {
		return done, err
	}
	g := &graft{store: w.store, made: memory.NewStorage()}
	commit, err := w.commit(g, w.head, take)
	if err != nil {
		return Reverted{}, err
	}
	if err := g.keepFiles(ctx, take, w.git.options.MaxObjectBytes); err != nil {
		return Reverted{}, err
	}
	if done.Undone, done.More, err = w.undone(ctx, done.Files); err != nil {
		return Reverted{}, err
	}
	done.Commit, done.Head = commit.String(), w.head.String()
	err = w.git.push(ctx, w.req, w.Branch, commit, g.made)
	if errors.As(err, new(*BranchError)) {
		return w.resume(ctx, done, take, err)
	}
	return done, err
}

// fetch brings the head of the branch that is followed, and the two commits.
func (w *reverting) fetch(ctx context.Context) error {
	c, err := w.git.converse(ctx, w.req)
	if err != nil {
		return err
	}
	err = w.git.fill(ctx, w.store, c, w.req)
	c.end()
	if err != nil {
		return err
	}
	w.head, w.store.tip = c.target.commit, c.target.commit
	for _, one := range []struct {
		commit string
		tree   *plumbing.Hash
	}{{w.From, &w.from}, {w.Bad, &w.bad}} {
		if err := w.reach(ctx, plumbing.NewHash(one.commit)); err != nil {
			return err
		}
		if *one.tree, err = w.store.root(plumbing.NewHash(one.commit)); err != nil {
			return err
		}
	}
	return nil
}

// reach brings a commit that may lie before the head. It may bring as much as a clone: what was deleted
// since may be larger than all that is left, and the store is removed with the work.
func (w *reverting) reach(ctx context.Context, commit plumbing.Hash) error {
	var refused error
	for _, more := range w.git.histories(ctx, w.store, w.req, commit, w.git.limits()) {
		if w.store.has(commit) {
			return nil
		}
		if err := more(); err != nil && !errors.As(err, new(*HistoryError)) {
			return err
		} else if err != nil {
			refused = err
		}
	}
	if w.store.has(commit) {
		return nil
	}
	return &HistoryError{Since: commit.String(), Reason: fmt.Sprintf("the host does not give it out: %v", refused)}
}

// compare finds which files are taken back.
func (w *reverting) compare(ctx context.Context) (Reverted, files, error) {
	head, err := w.store.root(w.head)
	if err != nil {
		return Reverted{}, nil, err
	}
	found, take, changed, badOnes := Reverted{}, files{}, files{}, files{}
	within := w.Within(ctx, &render.Snapshot{Revision: w.From, Commit: w.From, FS: newTree(w.store, w.from, w.From, w.git.options.MaxFileBytes)})
	d := difference{store: w.store, file: func(name string, before, now *object.TreeEntry) {
		if !within(name) {
			found.Left = append(found.Left, name)
			return
		}
		changed[name], badOnes[name] = before, now
	}}
	if err := d.walk("", w.from, w.bad, 0); err != nil {
		return Reverted{}, nil, err
	}
	for name, before := range changed {
		now, err := w.files.at(ctx, head, name)
		if err != nil {
			return Reverted{}, nil, err
		}
		if sameFile(before, now) {
			continue
		}
		take[name], found.Files = before, append(found.Files, name)
		if !sameFile(badOnes[name], now) {
			found.Newer = append(found.Newer, name)
		}
	}
	slices.Sort(found.Left)
	slices.Sort(found.Files)
	slices.Sort(found.Newer)
	return found, take, nil
}

// commit makes the commit on top of another one. It is the same whenever it is made.
func (w *reverting) commit(g *graft, on plumbing.Hash, take files) (plumbing.Hash, error) {
	root, err := w.store.root(on)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	tree, err := g.tree("", root, take)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	by := object.Signature{Name: author, Email: authorEmail, When: w.At.UTC()}
	return keep(g.made, &object.Commit{Author: by, Committer: by, Message: w.Message, TreeHash: tree, ParentHashes: []plumbing.Hash{on}})
}
