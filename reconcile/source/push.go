package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/storage/memory"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// Proposals is what the branches begin with that are pushed. No other one is ever written.
const Proposals = "plumbline/"

// proposes refuses every other branch.
func proposes(branch string) error {
	if !strings.HasPrefix(branch, Proposals) || strings.HasSuffix(branch, "/") || plumbing.NewBranchReferenceName(branch).Validate() != nil {
		return fmt.Errorf("push branch %q: only those below %s are written", branch, Proposals)
	}
	return nil
}

// receiver is one conversation with a Git host that takes a pack.
type receiver interface {
	advertiser
	ReceivePack(ctx context.Context, req *packp.ReferenceUpdateRequest) (*packp.ReportStatus, error)
}

// push makes a new branch of a commit and of what it is made of. One that is there is left as it
// is: with the same commit that is a success, with another one a *BranchError.
func (g *Git) push(ctx context.Context, req Request, branch string, commit plumbing.Hash, made *memory.Storage) error {
	if err := proposes(branch); err != nil {
		return err
	}
	req.Ref = v1alpha1.GitRef{Branch: branch}
	l := &line{dir: g.dir()}
	defer func() {
		if g.options.OnFetch != nil {
			g.options.OnFetch(FetchStats{Received: l.received.Load()})
		}
	}()
	c, err := openReceiver(ctx, req, l)
	if err != nil {
		return pushFailed(ctx, err, req)
	}
	defer func() { _ = c.Close() }()
	ar, has, err := advertised(ctx, c)
	if err != nil {
		return pushFailed(ctx, err, req)
	}
	switch tip, there := has.tips[branches+branch]; {
	case there && tip == commit:
		return nil
	case there:
		return &BranchError{URL: bare(req.URL), Branch: branch, Tip: tip.String()}
	}
	var pack bytes.Buffer
	if _, err := packfile.NewEncoder(&pack, made, false).Encode(hashes(made), 0); err != nil {
		return fmt.Errorf("pack commit %s: %w", commit, err)
	}
	update, said := packp.NewReferenceUpdateRequest(), &firstBytes{}
	for _, k := range []capability.Capability{capability.ReportStatus, capability.Sideband64k} {
		if ar.Capabilities.Supports(k) {
			_ = update.Capabilities.Set(k) // fails for capabilities with an argument only
		}
	}
	update.Progress = said
	// The old hash is that of no commit: the host refuses where there is a branch meanwhile.
	update.Commands = []*packp.Command{{Name: plumbing.NewBranchReferenceName(branch), New: commit}}
	update.Packfile = io.NopCloser(&pack)
	report, err := c.ReceivePack(ctx, update)
	if report != nil && report.Error() != nil {
		err = fmt.Errorf("%w %s", report.Error(), said)
		return &PushError{URL: bare(req.URL), Branch: branch, Err: hideSecrets(err, req.URL, req.Credentials)}
	}
	return pushFailed(ctx, err, req)
}

func hashes(of *memory.Storage) []plumbing.Hash {
	all := make([]plumbing.Hash, 0, len(of.Objects))
	for hash := range of.Objects {
		all = append(all, hash)
	}
	return all
}

// resume finds whether the branch that is there is what an earlier try has pushed, before the
// branch that is followed has moved on.
func (w *reverting) resume(ctx context.Context, done Reverted, take files, taken error) (Reverted, error) {
	req := w.req
	req.Ref = v1alpha1.GitRef{Branch: w.Branch}
	err := w.git.bring(ctx, w.store, req, plumbing.ZeroHash, firstDepth, w.git.limits())
	if err != nil {
		return Reverted{}, err
	}
	var branch *BranchError
	errors.As(taken, &branch)
	tip, err := w.store.commit(plumbing.NewHash(branch.Tip))
	if err != nil {
		return Reverted{}, err
	}
	if len(tip.ParentHashes) != 1 || !w.store.follows(w.head, tip.ParentHashes[0]) {
		return Reverted{}, taken
	}
	w.At = tip.Author.When // all else has to be as it would be made now
	made, err := w.commit(&graft{store: w.store, made: memory.NewStorage()}, tip.ParentHashes[0], take)
	if errors.As(err, new(*GraftError)) || err == nil && made != tip.Hash {
		return Reverted{}, taken
	}
	done.Commit, done.Head = tip.Hash.String(), tip.ParentHashes[0].String()
	return done, err
}

// BranchError says that a branch is there that has another commit than it should have.
type BranchError struct {
	URL, Branch, Tip string
}

// Error says what to do about it.
func (e *BranchError) Error() string {
	return fmt.Sprintf("push branch %s to %s: it is there with another commit, and is not written to: delete it, or revert by hand", e.Branch, e.URL)
}

// PushError says that a host does not take a branch.
type PushError struct {
	URL, Branch string
	// Denied says that it refuses the credentials, or wants some that may push.
	Denied bool
	Err    error
}

// Error says which right is missing.
func (e *PushError) Error() string {
	if e.Denied {
		return fmt.Sprintf("push branch %s to %s: the host refuses the credentials: %v: let the secret that source.git.secretRef names push branches (GitHub: Contents, read and write; GitLab: the scope write_repository and the role Developer; Gitea and Forgejo: write:repository; a deploy key with write access)", e.Branch, e.URL, e.Err)
	}
	return fmt.Sprintf("push branch %s to %s: the host does not take it: %v: let branches below %s be created", e.Branch, e.URL, e.Err, Proposals)
}

// Unwrap returns the host's answer.
func (e *PushError) Unwrap() error { return e.Err }

// pushFailed turns what a conversation over a push ended in into an error of this package.
func pushFailed(ctx context.Context, err error, req Request) error {
	err = classify(ctx, err, req)
	var auth *AuthError
	var gone *NotFoundError
	switch {
	case errors.As(err, &auth):
		err = auth.Err
	case errors.As(err, &gone): // hidden from those that may not write
		err = transport.ErrRepositoryNotFound
	default:
		return err
	}
	return &PushError{URL: bare(req.URL), Branch: req.Ref.Branch, Denied: true, Err: err}
}
