package source

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/source/signature"
)

// maxSigned limits the commits of one Range, because each is read and verified.
const maxSigned = 1000

// firstDepth is the depth of the first request for more history. It usually covers what was missed during a restart.
const firstDepth = 64

// Signatures describes which signatures a key's last Snapshot needs.
type Signatures struct {
	Mode v1alpha1.VerificationMode
	// Commit is that of the Snapshot.
	Commit string
	// Since is the commit up to which everything is verified; empty for none. It is only used for Range.
	Since string
	// Newest is the newest verified commit; empty for none.
	Newest string
	Keys   signature.Keys
	// Now is the time at which the keys must be valid.
	Now time.Time
}

// Verified describes the signature of a Snapshot.
type Verified struct {
	// Signer signed the commit or the tag: the entry of the Secret, and the key.
	Signer string
	// Made is the creation time that the commit or the tag states.
	Made time.Time
	// Follows is true if Newest is known to be an ancestor of the commit or the commit itself, or if there is no
	// Newest.
	Follows bool
}

// Verify returns who signed the commit or tag of the key's last Snapshot. With Range, every commit that it reaches but
// Since does not must be signed, through any parent, and the two histories must have a commit in common. If a part of
// them is missing from the store, Verify deepens it.
//
// The error is a *signature.Error if a signature is missing or not accepted; a *HistoryError if the commits in between
// are unknown or too many; the context's; or one of Fetch's.
func (g *Git) Verify(ctx context.Context, req Request, want Signatures) (Verified, error) {
	ctx, cancel := g.bound(ctx)
	defer cancel()
	g.mu.Lock()
	held := g.holds[req.Key]
	g.mu.Unlock()
	if held.store == nil || !held.store.usable() || held.target.commit.String() != want.Commit {
		return Verified{}, &StaleError{Revision: want.Commit}
	}
	found, err := held.verifyHead(want)
	if err != nil {
		return Verified{}, err
	}
	if want.Mode == v1alpha1.VerifyRange && want.Since != "" && want.Since != want.Commit {
		commits, err := g.unverified(ctx, req, held, want)
		if err != nil {
			return Verified{}, classify(ctx, err, req)
		}
		for _, c := range commits {
			if _, err := held.store.verifyCommit(c.hash, want); err != nil {
				return Verified{}, err
			}
		}
	}
	found.Follows = want.Newest == "" || held.store.follows(held.target.commit, plumbing.NewHash(want.Newest))
	return found, nil
}

// follows reports whether a commit is known to be an ancestor of head, or head itself.
func (s *store) follows(head, commit plumbing.Hash) bool {
	if head == commit {
		return true
	}
	if !s.has(commit) {
		return false
	}
	ahead, whole, err := s.since(commit, head, maxWalked)
	return err == nil && whole && len(ahead) == 0
}

// unverified lists the commits since the last verified one.
func (g *Git) unverified(ctx context.Context, req Request, held hold, want Signatures) ([]*visit, error) {
	since := plumbing.NewHash(want.Since)
	for _, depth := range []int{0, firstDepth, maxSigned + 1} {
		if depth > 0 {
			if err := g.reach(ctx, req, held, depth); err != nil {
				return nil, err
			}
		}
		commits, h, err := held.store.walk(held.target.commit, since, maxSigned+1)
		switch {
		case err != nil:
			return nil, err
		case h.more || len(commits) > maxSigned:
			return nil, &HistoryError{Since: want.Since, Reason: fmt.Sprintf("there are more than %d", maxSigned)}
		case h.whole && !h.met:
			return nil, &HistoryError{Since: want.Since, Reason: "HEAD has another history"}
		case h.whole:
			return commits, nil
		}
	}
	return nil, &HistoryError{Since: want.Since, Reason: "it is not among the commits before HEAD"}
}

// reach deepens the store of a key's last Snapshot.
func (g *Git) reach(ctx context.Context, req Request, held hold, depth int) error {
	s := held.using
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	if s.store != held.store || !s.store.usable() {
		return &StaleError{Revision: held.target.revision()}
	}
	if !s.store.mayDeepen(depth) {
		return nil
	}
	return g.fetchHistory(ctx, s.store, req, depth, g.limits())
}

// verifyHead verifies the tag or the commit.
func (h hold) verifyHead(want Signatures) (Verified, error) {
	if want.Mode == v1alpha1.VerifyTag {
		return h.verifyTag(want)
	}
	return h.store.verifyCommit(h.target.commit, want)
}

func (h hold) verifyTag(want Signatures) (Verified, error) {
	t := h.target
	if !t.annotated() {
		name := "reference " + t.label
		if t.tag != "" {
			name = "tag " + t.tag
		}
		return Verified{}, &signature.Error{
			Object: name, Problem: "is not an annotated tag, and so not signed",
			Remedy: "make and sign one on the commit (git tag -s) and push it",
		}
	}
	data, err := h.store.raw(plumbing.TagObject, t.want, func(plumbing.EncodedObject) error { return nil })
	if err != nil {
		return Verified{}, err
	}
	signer, made, err := want.Keys.Tag(signature.Tag{Name: t.tag, Data: data, Commit: t.commit.String()}, want.Now)
	return Verified{Signer: signer, Made: made}, err
}

func (s *store) verifyCommit(hash plumbing.Hash, want Signatures) (Verified, error) {
	c := signature.Commit{Hash: hash.String()}
	data, err := s.raw(plumbing.CommitObject, hash, func(o plumbing.EncodedObject) error {
		read := &object.Commit{}
		if err := read.Decode(o); err != nil {
			return err
		}
		c.Tree = read.TreeHash.String()
		for _, parent := range read.ParentHashes {
			c.Parents = append(c.Parents, parent.String())
		}
		return nil
	})
	if err != nil {
		return Verified{}, err
	}
	c.Data = data
	signer, made, err := want.Keys.Commit(c, want.Now)
	return Verified{Signer: signer, Made: made}, err
}

// raw reads an object as Git stores it, verifies its hash, and passes it to parse.
func (s *store) raw(kind plumbing.ObjectType, hash plumbing.Hash, parse func(plumbing.EncodedObject) error) (data []byte, err error) {
	err = s.small(hash, "the "+kind.String()+" "+hash.String(), func(objects *filesystem.Storage) error {
		o, err := objects.EncodedObject(kind, hash)
		if err != nil {
			return err
		}
		r, err := o.Reader()
		if err != nil {
			return err
		}
		defer func() { _ = r.Close() }() // opened for reading: nothing can be lost
		if data, err = io.ReadAll(r); err != nil {
			return err
		}
		if found := plumbing.ComputeHash(kind, data); found != hash {
			return fmt.Errorf("object %s has the hash %s", hash, found)
		}
		return parse(o)
	})
	return data, err
}
