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
	// Commit is the one that the branch has now; empty if there is nothing to take back.
	Commit string
	// Head is the commit below it.
	Head string
	// Files are those that are taken back, and Newer those of them that other commits have changed
	// since Bad. Left are those that have been changed too, and are not within the Revert.
	Files, Newer, Left []string
	// Undone are the commits that have changed Files since From, the newest first, if they
	// are known. More reports that there may be others.
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

// graft makes a tree out of another one, in which some files are what they were. Nothing that is
// not named is touched.
type graft struct {
	store *store
	// made has the trees that are new.
	made *memory.Storage
}

// files are what is to stand at a path; nil for no file.
type files map[string]*object.TreeEntry

// tree is what becomes of a tree, the zero hash for none; the zero hash where nothing is left of it.
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

// folder puts a folder with what it is to have below it among the entries that are there.
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

// isGone reports whether no file is to stand at a name.
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

// write keeps a tree. Git has no empty ones but at the root.
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

// encoder is an object that Git keeps.
type encoder interface {
	Encode(plumbing.EncodedObject) error
}

// keep encodes an object, and keeps it.
func keep(in *memory.Storage, o encoder) (plumbing.Hash, error) {
	encoded := in.NewEncodedObject()
	if err := o.Encode(encoded); err != nil {
		return plumbing.ZeroHash, fmt.Errorf("write an object: %w", err)
	}
	return in.SetEncodedObject(encoded)
}

// keepFiles adds the content of files: a host that has lost From may lack them.
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
			return &LimitError{What: "what is taken back", Limit: most}
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

// split tells the files of a folder from those below its folders.
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

// GraftError reports that a file cannot be what it was, for what stands there now.
type GraftError struct {
	Name, Reason string
}

// Error names the file.
func (e *GraftError) Error() string {
	return fmt.Sprintf("%s %s: take the change back by hand", e.Name, e.Reason)
}

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

// BranchError reports that a branch is there that has another commit than it should have.
type BranchError struct {
	URL, Branch, Tip string
}

// Error says what to do about it.
func (e *BranchError) Error() string {
	return fmt.Sprintf("push branch %s to %s: it is there with another commit, and is not written to: delete it, or revert by hand", e.Branch, e.URL)
}

// PushError reports that a host does not take a branch.
type PushError struct {
	URL, Branch string
	// Denied reports whether it refuses the credentials, or wants some that may push.
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
