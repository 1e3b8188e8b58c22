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

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/memory"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// Change is a commit on top of the followed branch that gives existing files another text.
type Change struct {
	// Branch is the branch to push to, below plumbline/.
	Branch string
	// Edit returns the files to change in a Snapshot, with their new text.
	Edit func(ctx context.Context, at *render.Snapshot) (map[string][]byte, error)
	// Earlier returns what an earlier Change to the same branch has changed, of which only the message is known. It
	// identifies a commit that was pushed before; nil for one that is Edit's.
	Earlier func(ctx context.Context, at *render.Snapshot, message string) (map[string][]byte, error)
	Message string
	At      time.Time
}

// Changed is the result of a Change.
type Changed struct {
	// Commit is the commit of the branch; empty if the followed branch already has the change. Head is its parent.
	Commit, Head string
	// Files are the changed files.
	Files []string
	// Pushed reports whether the branch was created or moved.
	Pushed bool
}

// Change pushes a commit to a branch of its own. A branch with an equivalent commit is left as it is, unless one of its
// files has changed on the followed branch since: then it is rebased. A branch with an earlier Change is replaced. With
// any other commit, the error is a *BranchError. Change works on its own clone and does not block fetches.
//
// The error may also be a *PushError, one of Edit, or one of Fetch's.
func (g *Git) Change(ctx context.Context, req Request, c Change) (Changed, error) {
	return g.changing(ctx, req, c, func(ctx context.Context, w *changing) (Changed, error) { return w.run(ctx) })
}

// changing does something with the branch of a Change, on a clone of its own.
func (g *Git) changing(
	ctx context.Context, req Request, c Change, do func(context.Context, *changing) (Changed, error),
) (Changed, error) {
	ctx, cancel := g.bound(ctx)
	defer cancel()
	if err := proposes(c.Branch); err != nil {
		return Changed{}, err
	}
	if err := g.sweep(); err != nil {
		return Changed{}, err
	}
	s, err := newStore(g.nextDir(), g.room, g.options.Space)
	if err != nil {
		return Changed{}, err
	}
	done, err := do(ctx, &changing{git: g, store: s, files: &lookup{store: s}, req: req, Change: c})
	return done, errors.Join(classify(ctx, err, req), s.remove())
}

// CheckBranch returns a *BranchError unless DeleteBranch would delete the branch.
func (g *Git) CheckBranch(ctx context.Context, req Request, c Change, commit string) error {
	c.Message = ""
	_, err := g.changing(ctx, req, c, func(ctx context.Context, w *changing) (Changed, error) {
		_, err := w.own(ctx, commit)
		return Changed{}, err
	})
	return err
}

// DeleteBranch deletes the branch of a Change, of which only Branch and Earlier count, if its commit is the given one, and was
// pushed by an earlier Change. Otherwise the branch stays, and the error is a *BranchError.
func (g *Git) DeleteBranch(ctx context.Context, req Request, c Change, commit string) error {
	c.Message = ""
	_, err := g.changing(ctx, req, c, func(ctx context.Context, w *changing) (Changed, error) { return Changed{}, w.drop(ctx, commit) })
	return err
}

// changing is the state of one Change.
type changing struct {
	Change
	git   *Git
	store *store
	files *lookup
	req   Request
	head  plumbing.Hash
}

// crafted is a commit that was made, with its new objects.
type crafted struct {
	commit  plumbing.Hash
	objects *memory.Storage
	names   []string
}

func (w *changing) run(ctx context.Context) (Changed, error) {
	if err := w.fetch(ctx); err != nil {
		return Changed{}, err
	}
	now, err := w.make(ctx, w.head, w.Message, w.At, w.Edit)
	if err != nil || now.commit.IsZero() {
		return Changed{}, err
	}
	done := Changed{Commit: now.commit.String(), Head: w.head.String(), Files: now.names, Pushed: true}
	to := update{branch: w.Branch, commit: now.commit, made: now.objects}
	err = w.git.push(ctx, w.req, to)
	var taken *BranchError
	if !errors.As(err, &taken) {
		return done, err
	}
	tip, stays, err := w.resume(ctx, taken, now)
	if err != nil {
		return Changed{}, err
	}
	if stays {
		return Changed{Commit: tip.Hash.String(), Head: tip.ParentHashes[0].String(), Files: now.names}, nil
	}
	to.was = tip.Hash
	return done, w.git.push(ctx, w.req, to)
}

// own returns the commit of the branch, if an earlier Change has pushed it.
func (w *changing) own(ctx context.Context, commit string) (*object.Commit, error) {
	if err := w.fetch(ctx); err != nil {
		return nil, err
	}
	tip, _, err := w.resume(ctx, &BranchError{URL: bare(w.req.URL), Branch: w.Branch, Tip: commit}, crafted{})
	return tip, err
}

// drop deletes the branch.
func (w *changing) drop(ctx context.Context, commit string) error {
	tip, err := w.own(ctx, commit)
	if err != nil {
		return err
	}
	return w.git.push(ctx, w.req, update{branch: w.Branch, was: tip.Hash})
}

// fetch fetches the head of the followed branch.
func (w *changing) fetch(ctx context.Context) error {
	c, err := w.git.converse(ctx, w.req)
	if err != nil {
		return err
	}
	err = w.git.fill(ctx, w.store, c, w.req)
	c.end()
	w.head, w.store.tip = c.target.commit, c.target.commit
	return err
}

// make makes the commit on top of another one; zero if that has the change already. It is deterministic.
func (w *changing) make(
	ctx context.Context, on plumbing.Hash, message string, at time.Time,
	edit func(context.Context, *render.Snapshot) (map[string][]byte, error),
) (crafted, error) {
	root, err := w.store.root(on)
	if err != nil {
		return crafted{}, err
	}
	texts, err := edit(ctx, &render.Snapshot{
		Revision: on.String(), Commit: on.String(), FS: newTree(w.store, root, on.String(), w.git.options.MaxFileBytes),
	})
	if err != nil {
		return crafted{}, err
	}
	m, take := crafted{objects: memory.NewStorage()}, files{}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		was, err := w.files.at(ctx, root, name)
		if err != nil {
			return crafted{}, err
		}
		if was == nil || was.Mode != filemode.Regular && was.Mode != filemode.Executable {
			return crafted{}, &GraftError{Name: name, Reason: "is no regular file"}
		}
		hash, err := keepText(m.objects, texts[name])
		if err != nil {
			return crafted{}, err
		}
		if hash != was.Hash {
			take[name], m.names = &object.TreeEntry{Mode: was.Mode, Hash: hash}, append(m.names, name)
		}
	}
	if len(take) == 0 {
		return crafted{}, nil
	}
	tree, err := (&graft{store: w.store, made: m.objects}).tree("", root, take)
	if err != nil {
		return crafted{}, err
	}
	by := object.Signature{Name: author, Email: authorEmail, When: at.UTC()}
	m.commit, err = keep(m.objects, &object.Commit{Author: by, Committer: by, Message: message, TreeHash: tree, ParentHashes: []plumbing.Hash{on}})
	return m, err
}

// keepText stores a text.
func keepText(in *memory.Storage, text []byte) (plumbing.Hash, error) {
	blob := in.NewEncodedObject()
	blob.SetType(plumbing.BlobObject)
	out, err := blob.Writer()
	if err != nil {
		return plumbing.ZeroHash, fmt.Errorf("write a file: %w", err)
	}
	if _, err := io.Copy(out, bytes.NewReader(text)); err != nil {
		return plumbing.ZeroHash, fmt.Errorf("write a file: %w", err)
	}
	return in.SetEncodedObject(blob)
}

// resume checks whether the existing branch has a commit that an earlier Change has pushed, and whether it can stay: with
// the same message, and while nothing else has changed its files.
func (w *changing) resume(ctx context.Context, taken *BranchError, now crafted) (tip *object.Commit, stays bool, err error) {
	req := w.req
	req.Ref = v1alpha1.GitRef{Branch: w.Branch}
	if err := w.git.fetchTo(ctx, w.store, req, plumbing.ZeroHash, firstDepth, w.git.limits()); err != nil {
		return nil, false, err
	}
	if !w.store.has(plumbing.NewHash(taken.Tip)) {
		return nil, false, taken
	}
	if tip, err = w.store.commit(plumbing.NewHash(taken.Tip)); err != nil {
		return nil, false, err
	}
	if len(tip.ParentHashes) != 1 || !w.store.has(tip.ParentHashes[0]) {
		return nil, false, taken
	}
	edit := w.Edit
	if same := tip.Message == w.Message; !same && w.Earlier == nil {
		return nil, false, taken
	} else if !same {
		edit = func(ctx context.Context, at *render.Snapshot) (map[string][]byte, error) {
			return w.Earlier(ctx, at, tip.Message)
		}
	}
	parent := tip.ParentHashes[0]
	was, err := w.make(ctx, parent, tip.Message, tip.Author.When, edit)
	if err != nil || was.commit != tip.Hash {
		return nil, false, taken // whatever it is, it is not what was pushed
	}
	if tip.Message != w.Message || !w.store.follows(w.head, parent) {
		return tip, false, nil
	}
	stays, err = w.sameFiles(ctx, parent, now.names)
	return tip, stays, err
}

// sameFiles reports whether files are the same in a commit and in the head of the followed branch.
func (w *changing) sameFiles(ctx context.Context, commit plumbing.Hash, names []string) (bool, error) {
	before, err := w.store.root(commit)
	if err != nil {
		return false, err
	}
	now, err := w.store.root(w.head)
	if err != nil {
		return false, err
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
			return false, nil
		}
	}
	return true, nil
}
