package source

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
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
	// Commits are the newest ones that can be reached from Tip or from the commit that was asked for, newest first.
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
	// maxBranch limits the commits of a Branch.
	maxBranch = 1000
	// minBranch is how many commits are read even if fewer reach the commit that was asked for: what follows them may
	// refer to older ones.
	minBranch = 200
	// newBranchDepth is how far a store without a commit to reach is deepened.
	newBranchDepth = 256
	// maxBranchFile limits the file of a BranchCommit, in bytes.
	maxBranchFile = 1 << 20
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
	b := Branch{Tip: tip.String()}
	h := &history{store: s, seen: map[plumbing.Hash]*visit{}}
	for _, from := range []plumbing.Hash{tip, reach} {
		if !from.IsZero() {
			if err := h.visit(from, false); err != nil {
				return Branch{}, err
			}
		}
	}
	files := map[plumbing.Hash][]byte{}
	for passed := reach.IsZero(); len(h.next) > 0 && len(b.Commits) < maxBranch && (!passed || len(b.Commits) < minBranch); {
		v := popNewest(&h.next)
		passed = passed || v.hash == reach
		one, err := s.branchCommit(v, q, files)
		if err != nil {
			return Branch{}, err
		}
		b.Commits = append(b.Commits, one)
		for _, parent := range v.parents {
			if err := h.visit(parent, false); err != nil {
				return Branch{}, err
			}
		}
	}
	return b, nil
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
	_, h, err := s.walk(s.tip, reach, maxBranch)
	return err == nil && h.met && h.whole, err
}

// branchCommit reads what was asked for of one commit.
func (s *store) branchCommit(v *visit, q BranchQuery, files map[plumbing.Hash][]byte) (BranchCommit, error) {
	c, err := s.commit(v.hash)
	if err != nil {
		return BranchCommit{}, err
	}
	found := BranchCommit{Hash: v.hash.String(), At: v.at, Trailer: trailer(c.Message, q.Trailer)}
	for _, parent := range v.parents {
		found.Parents = append(found.Parents, parent.String())
	}
	entries, err := s.folder(c.TreeHash)
	if err != nil {
		return BranchCommit{}, &StoreError{Err: err}
	}
	sum := sha256.New()
	for _, e := range entries {
		if e.Name != q.File {
			_, _ = fmt.Fprintf(sum, "%s %s %s\x00", e.Mode, e.Hash, e.Name) // a hash never fails to write
			continue
		}
		found.FileID = e.Hash.String()
		if found.File, found.Problem, err = s.branchFile(e, files); err != nil {
			return BranchCommit{}, err
		}
	}
	found.Content = hex.EncodeToString(sum.Sum(nil))
	return found, nil
}

// branchFile reads a file at the root.
func (s *store) branchFile(e object.TreeEntry, files map[plumbing.Hash][]byte) (data []byte, problem string, err error) {
	if e.Mode != filemode.Regular && e.Mode != filemode.Executable && e.Mode != filemode.Deprecated {
		return nil, e.Name + " is not a file", nil
	}
	if known, read := files[e.Hash]; read {
		return known, "", nil
	}
	size, err := s.size(e.Hash)
	if err != nil {
		return nil, "", &StoreError{Err: err}
	}
	if size > maxBranchFile {
		return nil, fmt.Sprintf("%s has %d bytes, and %d are the most", e.Name, size, maxBranchFile), nil
	}
	if data, err = s.blob(e.Hash); err != nil {
		return nil, "", &StoreError{Err: err}
	}
	files[e.Hash] = data
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
