package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/plumbline-dev/plumbline/reconcile/source/signature"
	"github.com/plumbline-dev/plumbline/render"
)

// Branch is the newest part of the history of the branch that a key follows.
type Branch struct {
	// Tip is the newest commit that was fetched.
	Tip string
	// Commits are Tip and its first parents down to the commit that was asked for, then others that can be reached from one
	// of the two, newest first.
	Commits []BranchCommit
}

// BranchCommit is a commit of a Branch.
type BranchCommit struct {
	Hash    string
	Parents []string
	At      time.Time
	// File is the content of the file that was asked for, at the root; nil if there is none. Problem is why it cannot be
	// read. FileID is equal for equal content.
	File    []byte
	FileID  string
	Problem string
	// Content identifies all other files.
	Content string
	// Trailer is the value of the trailer that was asked for; empty if the message has none.
	Trailer string
}

// BranchQuery is what to read of a branch.
type BranchQuery struct {
	// Reach is a commit that must be among the commits; empty for none.
	Reach string
	// File is the name of a file at the root, and Trailer that of a trailer.
	File, Trailer string
}

const (
	// maxLine limits the first parents between the tip and the commit that was asked for, and maxBranch the other commits
	// of a Branch.
	maxLine, maxBranch = 10_000, 1000
	// minBranch is how many commits are read even if fewer reach the commit that was asked for: what follows them may
	// refer to older ones.
	minBranch = 200
	// newBranchDepth is how far a store without a commit to reach is deepened.
	newBranchDepth = 256
	// maxBranchFile limits the file of a BranchCommit, and maxBranchFiles those of a Branch, in bytes: all are in memory.
	maxBranchFile, maxBranchFiles = 64 << 10, 4 << 20
)

// Branch returns the history of the key's branch. If a part of it is missing from the store, it requests that from the
// host.
//
// The error is a *HistoryError if the commit to reach is unknown and the host does not give it out; the context's; or one
// of Fetch's.
func (g *Git) Branch(ctx context.Context, req Request, q BranchQuery) (Branch, error) {
	ctx, cancel := g.bound(ctx)
	defer cancel()
	g.mu.Lock()
	s := g.holds[req.Key].using
	g.mu.Unlock()
	if s == nil {
		return Branch{}, &StaleError{Revision: q.Reach}
	}
	if err := s.lock(ctx); err != nil {
		return Branch{}, classify(ctx, err, req)
	}
	defer s.unlock()
	if s.store == nil || !s.store.usable() || s.store.tip.IsZero() {
		return Branch{}, &StaleError{Revision: q.Reach}
	}
	b, err := g.branch(ctx, s.store, req, q)
	return b, classify(ctx, err, req)
}

func (g *Git) branch(ctx context.Context, s *store, req Request, q BranchQuery) (Branch, error) {
	tip, reach := s.tip, plumbing.NewHash(q.Reach)
	if err := g.deepenTo(ctx, s, req, reach); err != nil {
		return Branch{}, err
	}
	line, met, err := s.line(tip, reach)
	if err != nil {
		return Branch{}, err
	}
	if !met && len(line) > maxBranch {
		line = line[:maxBranch] // the branch was replaced, or the commit was merged
	}
	if len(line) > maxLine {
		return Branch{}, &HistoryError{Since: reach.String(), Reason: fmt.Sprintf("more than %d commits are newer", maxLine)}
	}
	w := &branchWalk{store: s, query: q, history: &history{store: s, seen: map[plumbing.Hash]*visit{}}, files: map[plumbing.Hash][]byte{}}
	if !reach.IsZero() && !met {
		line = append(line, reach)
	}
	return w.branch(tip, reach, line)
}

// line returns a commit and its first parents, down to another one; met is false if that is not among them.
func (s *store) line(from, to plumbing.Hash) (line []plumbing.Hash, met bool, err error) {
	for at := from; len(line) <= maxLine && s.has(at); {
		if line = append(line, at); at == to {
			return line, true, nil
		}
		c, err := s.commit(at)
		if err != nil {
			return nil, false, err
		}
		if len(c.ParentHashes) == 0 {
			break
		}
		at = c.ParentHashes[0]
	}
	return line, false, nil
}

// branchWalk reads commits of a branch.
type branchWalk struct {
	*store
	*history
	query BranchQuery
	// files are those that were read, and size is their size.
	files map[plumbing.Hash][]byte
	size  int64
}

// branch reads a line of commits, whatever their dates, and then the others, newest first: all that can be reached from the
// tip and not from the commit that was asked for, and some more, within limits.
func (w *branchWalk) branch(tip, reach plumbing.Hash, line []plumbing.Hash) (Branch, error) {
	b := Branch{Tip: tip.String(), Commits: make([]BranchCommit, len(line))}
	order := make([]int, 0, len(line))
	for i, at := range line {
		if at == reach {
			order = append([]int{i}, order...) // its file matters most
		} else {
			order = append(order, i)
		}
	}
	visits := make([]*visit, len(line))
	for i, at := range line {
		c, err := w.commit(at)
		if err != nil {
			return Branch{}, err
		}
		visits[i] = &visit{hash: at, parents: c.ParentHashes, at: c.Committer.When, old: at == reach}
		w.seen[at] = visits[i]
	}
	for _, i := range order {
		var err error
		if b.Commits[i], err = w.branchCommit(visits[i]); err != nil {
			return Branch{}, err
		}
		if err := w.visitParents(visits[i]); err != nil {
			return Branch{}, err
		}
	}
	for more := 0; len(w.next) > 0 && more < maxBranch && (len(b.Commits) < minBranch || slices.ContainsFunc(w.next, isNew)); more++ {
		v := popNewest(&w.next)
		one, err := w.branchCommit(v)
		if err != nil {
			return Branch{}, err
		}
		b.Commits = append(b.Commits, one)
		if err := w.visitParents(v); err != nil {
			return Branch{}, err
		}
	}
	return b, nil
}

func (w *branchWalk) visitParents(v *visit) error {
	for _, parent := range v.parents {
		if err := w.visit(parent, v.old); err != nil {
			return err
		}
	}
	return nil
}

// deepenTo makes the store contain a commit and what is between it and the tip; if the commit is zero, some history.
func (g *Git) deepenTo(ctx context.Context, s *store, req Request, reach plumbing.Hash) error {
	if reach.IsZero() {
		if !s.mayDeepen(newBranchDepth) {
			return nil
		}
		err := g.fetchHistory(ctx, s, req, newBranchDepth, g.limits())
		if errors.As(err, new(*HistoryError)) {
			return nil // the commits that are there have to do
		}
		return err
	}
	var refused error
	for _, more := range append(g.historyRequests(ctx, s, req, reach, g.limits()), nil) {
		met, err := s.meets(reach)
		if err != nil || met {
			return err
		}
		if more == nil {
			break
		}
		if err := more(); err != nil && !errors.As(err, new(*HistoryError)) {
			return err
		} else if err != nil {
			refused = err
		}
	}
	if s.has(reach) {
		return nil // the branch was replaced: nothing that is known is between the two
	}
	return &HistoryError{Since: reach.String(), Reason: fmt.Sprintf("the host does not give it out: %v", refused)}
}

// meets reports whether the store contains everything between a commit and the tip.
func (s *store) meets(reach plumbing.Hash) (bool, error) {
	if !s.has(reach) {
		return false, nil
	}
	if reach == s.tip {
		return true, nil
	}
	_, h, err := s.walk(s.tip, reach, maxLine)
	return err == nil && h.met && h.whole, err
}

// branchCommit reads what was asked for of one commit.
func (w *branchWalk) branchCommit(v *visit) (BranchCommit, error) {
	c, err := w.commit(v.hash)
	if err != nil {
		return BranchCommit{}, err
	}
	found := BranchCommit{Hash: v.hash.String(), At: v.at, Trailer: trailer(c.Message, w.query.Trailer)}
	for _, parent := range v.parents {
		found.Parents = append(found.Parents, parent.String())
	}
	entries, err := w.folder(c.TreeHash)
	if err != nil {
		return BranchCommit{}, &StoreError{Err: err}
	}
	sum := sha256.New()
	for _, e := range entries {
		if e.Name != w.query.File {
			_, _ = fmt.Fprintf(sum, "%s %s %s\x00", e.Mode, e.Hash, e.Name) // a hash never fails to write
			continue
		}
		found.FileID = e.Hash.String()
		if found.File, found.Problem, err = w.branchFile(e); err != nil {
			return BranchCommit{}, err
		}
	}
	found.Content = hex.EncodeToString(sum.Sum(nil))
	return found, nil
}

// branchFile reads a file at the root.
func (w *branchWalk) branchFile(e object.TreeEntry) (data []byte, problem string, err error) {
	if e.Mode != filemode.Regular && e.Mode != filemode.Executable && e.Mode != filemode.Deprecated {
		return nil, e.Name + " is not a file", nil
	}
	if known, read := w.files[e.Hash]; read {
		return known, "", nil
	}
	size, err := w.store.size(e.Hash)
	if err != nil {
		return nil, "", &StoreError{Err: err}
	}
	if size > maxBranchFile {
		return nil, fmt.Sprintf("%s has %d bytes, and %d are the most", e.Name, size, maxBranchFile), nil
	}
	if w.size+size > maxBranchFiles {
		return nil, fmt.Sprintf("newer versions of %s have more than %d bytes together", e.Name, maxBranchFiles), nil
	}
	w.size += size
	if data, err = w.blob(e.Hash); err != nil {
		return nil, "", &StoreError{Err: err}
	}
	w.files[e.Hash] = data
	return data, "", nil
}

// trailer returns the value of a trailer in the last paragraph of a message.
func trailer(message, name string) string {
	if name == "" {
		return ""
	}
	paragraphs := strings.Split(strings.TrimRight(message, "\n"), "\n\n")
	if len(paragraphs) < 2 {
		return "" // a subject is no trailer
	}
	for line := range strings.Lines(paragraphs[len(paragraphs)-1]) {
		if key, value, is := strings.Cut(line, ":"); is && strings.EqualFold(strings.TrimSpace(key), name) {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// SignerOf returns who has signed a commit that Branch has returned. The error is a *signature.Error if none of the keys
// has, or one of Fetch's.
func (g *Git) SignerOf(key, commit string, keys signature.Keys, now time.Time) (string, error) {
	s, err := g.storeOfKey(key, commit)
	if err != nil {
		return "", err
	}
	found, err := s.verifyCommit(plumbing.NewHash(commit), Signatures{Keys: keys, Now: now})
	return found.Signer, err
}

// At returns the files of a commit that Branch has returned.
func (g *Git) At(key, commit string) (*render.Snapshot, error) {
	s, err := g.storeOfKey(key, commit)
	if err != nil {
		return nil, err
	}
	root, err := s.root(plumbing.NewHash(commit))
	if err != nil {
		return nil, &StoreError{Err: err}
	}
	return &render.Snapshot{Revision: commit, Commit: commit, FS: newTree(s, root, commit, g.options.MaxFileBytes)}, nil
}

// Pick makes a commit that Branch has returned the key's last Snapshot, and returns it. What is asked about the last
// Snapshot from then on is answered about this commit.
func (g *Git) Pick(ctx context.Context, req Request, commit string) (*render.Snapshot, error) {
	s, err := g.storeOfKey(req.Key, commit)
	if err != nil {
		return nil, err
	}
	hash := plumbing.NewHash(commit)
	g.mu.Lock()
	t := g.holds[req.Key].target
	slot := g.holds[req.Key].using
	g.mu.Unlock()
	t = target{label: t.label, want: hash, commit: hash}
	if err := slot.lock(ctx); err != nil {
		return nil, classify(ctx, err, req)
	}
	err = s.prove(ctx, hash, req.Path)
	slot.unlock()
	var lost *missing
	switch {
	case ctx.Err() != nil:
		return nil, classify(ctx, ctx.Err(), req)
	case errors.As(err, &lost):
		return nil, &MissingError{URL: bare(req.URL), Object: lost.hash.String(), Name: lost.name}
	case err != nil:
		return nil, err
	}
	root, err := s.root(hash)
	if err != nil {
		return nil, &StoreError{Err: err}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if held, still := g.holds[req.Key]; still && held.store == s {
		held.target = t
		g.holds[req.Key] = held
	}
	return &render.Snapshot{Revision: t.revision(), Commit: commit, FS: newTree(s, root, t.revision(), g.options.MaxFileBytes)}, nil
}

// storeOfKey returns the store of the key's last Snapshot, which must contain a commit.
func (g *Git) storeOfKey(key, commit string) (*store, error) {
	g.mu.Lock()
	s := g.holds[key].store
	g.mu.Unlock()
	if s == nil || !s.usable() || !plumbing.IsHash(commit) || !s.has(plumbing.NewHash(commit)) {
		return nil, &StaleError{Revision: commit}
	}
	return s, nil
}
