package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/storage/memory"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// Revert is a commit on top of a branch that restores files to their previous content.
type Revert struct {
	// Branch is the new branch to push to, below plumbline/.
	Branch string
	// From is the commit whose files are restored, and Bad the one that changed them; both are full hashes.
	From, Bad string
	// Within returns a function that reports which files may be restored, by their path from the repository's root;
	// from is the Snapshot of From.
	Within  func(ctx context.Context, from *render.Snapshot) func(name string) bool
	Message string
	At      time.Time
}

// Reverted is the result of a Revert.
type Reverted struct {
	// Commit is the branch's new commit; empty if there is nothing to revert.
	Commit string
	// Head is its parent.
	Head string
	// Files are the restored files, and Newer those of them that other commits changed after Bad. Left are changed files
	// that are not within the Revert.
	Files, Newer, Left []string
	// Undone are the commits that changed Files since From, newest first, if known. More reports whether there may be
	// others.
	Undone []Undone
	More   bool
}

// Undone is a commit that is reverted, wholly or in part.
type Undone struct {
	Commit, Subject string
}

const (
	// maxUndone limits the commits that are searched for Undone.
	maxUndone = 100
	// author is the author and committer. Nobody can own the address: https://www.rfc-editor.org/rfc/rfc2606
	author, authorEmail = "plumbline", "plumbline@plumbline.invalid"
)

// Revert pushes a commit to a new branch. If the branch already exists with an equivalent commit, it is left as it is and
// counts as pushed; with any other commit, the error is a *BranchError. Revert works on its own clone and does not
// block fetches.
//
// The error may also be a *PushError, a *GraftError, or one of Fetch's.
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

// reverting is the state of one Revert.
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
	err = w.git.push(ctx, w.req, update{branch: w.Branch, commit: commit, made: g.made})
	if errors.As(err, new(*BranchError)) {
		return w.resume(ctx, done, take, err)
	}
	return done, err
}

// fetch fetches the head of the followed branch, and the commits From and Bad.
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
		if err := w.fetchAncestor(ctx, plumbing.NewHash(one.commit)); err != nil {
			return err
		}
		if *one.tree, err = w.store.root(plumbing.NewHash(one.commit)); err != nil {
			return err
		}
	}
	return nil
}

// fetchAncestor fetches a commit that may be an ancestor of the head. It may fetch as much as a clone: files deleted
// since may be larger than everything that remains, and the store is removed after the Revert.
func (w *reverting) fetchAncestor(ctx context.Context, commit plumbing.Hash) error {
	var refused error
	for _, more := range w.git.historyRequests(ctx, w.store, w.req, commit, w.git.limits()) {
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

// compare finds the files to restore.
func (w *reverting) compare(ctx context.Context) (Reverted, files, error) {
	head, err := w.store.root(w.head)
	if err != nil {
		return Reverted{}, nil, err
	}
	found, take, changed, badOnes := Reverted{}, files{}, files{}, files{}
	within := w.Within(ctx,
		&render.Snapshot{Revision: w.From, Commit: w.From, FS: newTree(w.store, w.from, w.From, w.git.options.MaxFileBytes)})
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

// commit creates the commit on top of another one. It is deterministic.
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

// undone lists the commits that changed the files since From.
func (w *reverting) undone(ctx context.Context, names []string) (found []Undone, more bool, err error) {
	commits, h, err := w.store.walk(w.head, plumbing.NewHash(w.From), maxUndone)
	if err != nil {
		return nil, false, err
	}
	for _, v := range commits {
		if len(v.parents) > 0 && !w.store.has(v.parents[0]) {
			continue // its changes are unknown
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

// changes reports whether one of the files differs in two trees.
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

// graft builds a tree from another one with some files restored. It leaves all other files unchanged.
type graft struct {
	store *store
	// made contains the new trees.
	made *memory.Storage
}

// files maps a path to its desired entry; nil means no file.
type files map[string]*object.TreeEntry

// tree returns the new tree for root, which is zero if there is none; the result is zero if nothing remains in it.
func (g *graft) tree(at string, root plumbing.Hash, take files) (plumbing.Hash, error) {
	there, err := g.store.entriesOf(root)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	here, below := split(take)
	for name, deeper := range below {
		if err := g.folder(path.Join(at, name), there, here, deeper); err != nil {
			return plumbing.ZeroHash, err
		}
	}
	for name, file := range here {
		switch now, is := there[name]; {
		case file == nil && is && now.Mode.IsFile():
			delete(there, name)
		case file == nil:
		case is && !now.Mode.IsFile():
			return plumbing.ZeroHash, &GraftError{Name: path.Join(at, name), Reason: "was a file, and is none now"}
		default:
			there[name] = object.TreeEntry{Name: name, Mode: file.Mode, Hash: file.Hash}
		}
	}
	return g.write(there, at == "")
}

// folder updates a subfolder, with the desired files below it, among the entries in there.
func (g *graft) folder(at string, there map[string]object.TreeEntry, here, deeper files) error {
	name := path.Base(at)
	child, is := there[name]
	if is && child.Mode != filemode.Dir {
		switch {
		case isGone(here, name):
			is = false
		case onlyGone(deeper):
			return nil
		default:
			return &GraftError{Name: at, Reason: "was a folder, and is none now"}
		}
	}
	if !is {
		child = object.TreeEntry{Name: name, Mode: filemode.Dir}
	}
	hash, err := g.tree(at, child.Hash, deeper)
	if err != nil {
		return err
	}
	child.Hash = hash
	if there[name] = child; hash.IsZero() {
		delete(there, name)
	}
	return nil
}

// isGone reports whether name must not be a file.
func isGone(here files, name string) bool {
	file, named := here[name]
	return named && file == nil
}

func onlyGone(take files) bool {
	for _, file := range take {
		if file != nil {
			return false
		}
	}
	return true
}

// write stores a tree. In Git, only the root tree may be empty.
func (g *graft) write(there map[string]object.TreeEntry, root bool) (plumbing.Hash, error) {
	if len(there) == 0 && !root {
		return plumbing.ZeroHash, nil
	}
	tree := object.Tree{}
	for _, e := range there {
		tree.Entries = append(tree.Entries, e)
	}
	sort.Sort(object.TreeEntrySorter(tree.Entries))
	return keep(g.made, &tree)
}

// encoder is an object that Git can store.
type encoder interface {
	Encode(plumbing.EncodedObject) error
}

// keep encodes and stores an object.
func keep(in *memory.Storage, o encoder) (plumbing.Hash, error) {
	encoded := in.NewEncodedObject()
	if err := o.Encode(encoded); err != nil {
		return plumbing.ZeroHash, fmt.Errorf("write an object: %w", err)
	}
	return in.SetEncodedObject(encoded)
}

// keepFiles adds the content of the files, because a host that no longer has From may not have them.
func (g *graft) keepFiles(ctx context.Context, take files, most int64) error {
	left := most
	for _, file := range take {
		if file == nil {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		size, err := g.store.size(file.Hash)
		if err != nil {
			return err
		}
		if left -= size; left < 0 {
			return &LimitError{What: "what is reverted", Limit: most}
		}
		data, err := g.store.blob(file.Hash)
		if err != nil {
			return err
		}
		blob := g.made.NewEncodedObject()
		blob.SetType(plumbing.BlobObject)
		if out, err := blob.Writer(); err != nil {
			return err
		} else if _, err := out.Write(data); err != nil {
			return err
		}
		if _, err := g.made.SetEncodedObject(blob); err != nil {
			return err
		}
	}
	return nil
}

// split separates the files in a folder from those in its subfolders.
func split(take files) (here files, below map[string]files) {
	here, below = files{}, map[string]files{}
	for name, file := range take {
		folder, rest, deeper := strings.Cut(name, "/")
		if !deeper {
			here[name] = file
			continue
		}
		if below[folder] == nil {
			below[folder] = files{}
		}
		below[folder][rest] = file
	}
	return here, below
}

// GraftError reports that a file cannot be restored, because of what is now at its path.
type GraftError struct {
	Name, Reason string
}

// Error names the file.
func (e *GraftError) Error() string {
	return fmt.Sprintf("%s %s: take the change back by hand", e.Name, e.Reason)
}

// Proposals is the prefix of the branches that are pushed. No other branch is ever written.
const Proposals = "plumbline/"

// proposes returns an error for any other branch.
func proposes(branch string) error {
	if !strings.HasPrefix(branch, Proposals) || strings.HasSuffix(branch, "/") || plumbing.NewBranchReferenceName(branch).Validate() != nil {
		return fmt.Errorf("push branch %q: only those below %s are written", branch, Proposals)
	}
	return nil
}

// receiver is one connection to a Git host that accepts a pack.
type receiver interface {
	advertiser
	ReceivePack(ctx context.Context, req *packp.ReferenceUpdateRequest) (*packp.ReportStatus, error)
}

// update is a change of a branch on a host.
type update struct {
	branch string
	// was is the commit that the branch may have now; zero if it must not exist.
	was plumbing.Hash
	// commit is its new commit, and made the objects that the host may not have; zero deletes the branch.
	commit plumbing.Hash
	made   *memory.Storage
}

// push creates, moves or deletes a branch. A branch with another commit than expected is left as it is: with the new commit,
// push succeeds; with any other, the error is a *BranchError.
func (g *Git) push(ctx context.Context, req Request, to update) error {
	if err := proposes(to.branch); err != nil {
		return err
	}
	req.Ref = v1alpha1.GitRef{Branch: to.branch}
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
	tip, there := has.tips[branches+to.branch]
	switch {
	case there && tip == to.commit, !there && to.commit.IsZero():
		return nil
	case there && tip != to.was:
		return &BranchError{URL: bare(req.URL), Branch: to.branch, Tip: tip.String()}
	}
	request, said, err := to.request(ar, tip)
	if err != nil {
		return err
	}
	report, err := c.ReceivePack(ctx, request)
	if report != nil && report.Error() != nil {
		err = fmt.Errorf("%w %s", report.Error(), said)
		return &PushError{URL: bare(req.URL), Branch: to.branch, Err: hideSecrets(err, req.URL, req.Credentials)}
	}
	return pushFailed(ctx, err, req)
}

// request returns the request to a host that has the commit was, zero for none, in the branch: the host refuses it if the
// branch has another one by now.
func (u update) request(ar *packp.AdvRefs, was plumbing.Hash) (*packp.ReferenceUpdateRequest, *firstBytes, error) {
	request, said := packp.NewReferenceUpdateRequest(), &firstBytes{}
	for _, k := range []capability.Capability{capability.ReportStatus, capability.Sideband64k} {
		if ar.Capabilities.Supports(k) {
			_ = request.Capabilities.Set(k) // fails only for capabilities with an argument
		}
	}
	request.Progress = said
	request.Commands = []*packp.Command{{Name: plumbing.NewBranchReferenceName(u.branch), Old: was, New: u.commit}}
	if u.commit.IsZero() {
		return request, said, nil
	}
	var pack bytes.Buffer
	if _, err := packfile.NewEncoder(&pack, u.made, false).Encode(hashes(u.made), 0); err != nil {
		return nil, nil, fmt.Errorf("pack commit %s: %w", u.commit, err)
	}
	request.Packfile = io.NopCloser(&pack)
	return request, said, nil
}

func hashes(of *memory.Storage) []plumbing.Hash {
	all := make([]plumbing.Hash, 0, len(of.Objects))
	for hash := range of.Objects {
		all = append(all, hash)
	}
	return all
}

// resume checks whether the existing branch was pushed by an earlier attempt, from an earlier head of the followed
// branch.
func (w *reverting) resume(ctx context.Context, done Reverted, take files, taken error) (Reverted, error) {
	req := w.req
	req.Ref = v1alpha1.GitRef{Branch: w.Branch}
	err := w.git.fetchTo(ctx, w.store, req, plumbing.ZeroHash, firstDepth, w.git.limits())
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
	w.At = tip.Author.When // everything else must be as if it were made now
	made, err := w.commit(&graft{store: w.store, made: memory.NewStorage()}, tip.ParentHashes[0], take)
	if errors.As(err, new(*GraftError)) || err == nil && made != tip.Hash {
		return Reverted{}, taken
	}
	done.Commit, done.Head = tip.Hash.String(), tip.ParentHashes[0].String()
	return done, err
}

// BranchError reports that a branch exists with another commit.
type BranchError struct {
	URL, Branch, Tip string
}

// Error says what to do.
func (e *BranchError) Error() string {
	return fmt.Sprintf("push branch %s to %s: it exists with another commit and is not overwritten: delete it, or make the change by hand", e.Branch, e.URL)
}

// PushError reports that a host rejects a branch.
type PushError struct {
	URL, Branch string
	// Denied reports whether the host rejects the credentials, or requires some with push access.
	Denied bool
	Err    error
}

// Error says which permission is missing.
func (e *PushError) Error() string {
	if e.Denied {
		return fmt.Sprintf("push branch %s to %s: the host refuses the credentials: %v: let the secret that source.git.secretRef names push branches (GitHub: Contents, read and write; GitLab: the scope write_repository and the role Developer; Gitea and Forgejo: write:repository; a deploy key with write access)", e.Branch, e.URL, e.Err)
	}
	return fmt.Sprintf("push branch %s to %s: the host does not take it: %v: let branches below %s be created",
		e.Branch, e.URL, e.Err, Proposals)
}

// Unwrap returns the host's error.
func (e *PushError) Unwrap() error { return e.Err }

// pushFailed converts the error of a push into one of this package's errors.
func pushFailed(ctx context.Context, err error, req Request) error {
	err = classify(ctx, err, req)
	var auth *AuthError
	var gone *NotFoundError
	switch {
	case errors.As(err, &auth):
		err = auth.Err
	case errors.As(err, &gone): // hidden from users without write access
		err = transport.ErrRepositoryNotFound
	default:
		return err
	}
	return &PushError{URL: bare(req.URL), Branch: req.Ref.Branch, Denied: true, Err: err}
}
