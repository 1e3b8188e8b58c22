package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/storage/memory"
)

// Record is a commit that a reference of Request.Records points to: a message from one cluster to others. The store of
// the branch does not contain it.
type Record struct {
	// Hash is the commit, in hex, and Data is how Git stores it. Data is nil if the commit could not be read; Problem is
	// then the reason.
	Hash    string
	Data    []byte
	Problem string
}

// Records are what the references of Request.Records point to, by the full names of the references. A reference that the
// host does not have is left out.
type Records struct {
	Of map[string]Record
	// Failure is why new records could not be fetched; Of then has the previous ones. nil if they could.
	Failure error
}

const (
	// recordBatch limits the records that are requested at one time, because they are in memory together.
	recordBatch = 100
	// recordRequests limits the requests for records of one fetch. One reference that points to something large costs
	// about a dozen.
	recordRequests = 48
)

// recordLimits limit one batch of n records.
func recordLimits(n int) limits {
	return limits{pack: 16 << 20, object: maxCommit, content: 64 << 20, objects: int64(4*n + 16), memory: 64 << 20}
}

// Records returns the records that the last fetch of the key has found.
func (g *Git) Records(key string) Records {
	g.mu.Lock()
	defer g.mu.Unlock()
	held := g.holds[key]
	if held.requested == nil {
		return Records{}
	}
	if found := held.requested.records.Load(); found != nil {
		return *found
	}
	return Records{}
}

// fetchRecords fetches the records that are new. It never fails a fetch of the branch: what goes wrong is a part of the
// result. The caller holds the slot's lock.
func (g *Git) fetchRecords(ctx context.Context, s *slot, c *conversation, req Request) {
	if len(req.Records) == 0 {
		return
	}
	before := Records{}
	if known := s.records.Load(); known != nil {
		before = *known
	}
	byHash := map[plumbing.Hash]Record{}
	for _, r := range before.Of {
		byHash[plumbing.NewHash(r.Hash)] = r
	}
	tips, wanted := map[string]plumbing.Hash{}, map[plumbing.Hash]bool{}
	for _, name := range req.Records {
		if tip, there := c.has.tips[name]; there {
			tips[name] = tip
			if _, known := byHash[tip]; !known {
				wanted[tip] = true
			}
		}
	}
	work := &recordFetch{git: g, req: req, c: c, found: byHash, left: recordRequests}
	missing := slices.SortedFunc(maps.Keys(wanted), func(a, b plumbing.Hash) int { return bytes.Compare(a[:], b[:]) })
	var failure error
	for batch := range slices.Chunk(missing, recordBatch) {
		if failure = work.batch(ctx, batch); failure != nil {
			break
		}
	}
	next := &Records{Of: map[string]Record{}, Failure: classify(ctx, failure, req)}
	for name, tip := range tips {
		if r, known := byHash[tip]; known {
			next.Of[name] = r
		} else if old, had := before.Of[name]; had {
			next.Of[name] = old
		}
	}
	s.records.Store(next)
}

// recordFetch fetches records in batches.
type recordFetch struct {
	git *Git
	req Request
	// c has the references; over HTTP, it also serves any number of packs.
	c     *conversation
	found map[plumbing.Hash]Record
	left  int
}

// batch fetches some records. If they are too large together, it fetches each half, until it has found the one that is
// too large.
func (f *recordFetch) batch(ctx context.Context, hashes []plumbing.Hash) error {
	if f.left--; f.left < 0 {
		return fmt.Errorf("fetch the records of other clusters: more than %d requests are needed: look for references that are no record", recordRequests)
	}
	err := f.one(ctx, hashes)
	var large *LimitError
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, errTooMuch) && !errors.As(err, &large):
		return err
	case len(hashes) == 1:
		f.found[hashes[0]] = Record{Hash: hashes[0].String(), Problem: "the reference points to something too large for a record"}
		return nil
	}
	half := len(hashes) / 2
	if err := f.batch(ctx, hashes[:half]); err != nil {
		return err
	}
	return f.batch(ctx, hashes[half:])
}

// one makes one request, and reads the commits from the pack.
func (f *recordFetch) one(ctx context.Context, hashes []plumbing.Hash) (err error) {
	c := f.c
	if _, reusable := c.session.(*httpSession); !reusable {
		if c, err = f.git.converse(ctx, f.req); err != nil {
			return err
		}
		defer c.end()
	}
	r := c.request(hashes[0])
	r.Wants = hashes
	if c.ar.Capabilities.Supports(capability.Shallow) {
		r.Depth = packp.DepthCommits(1)
	}
	if c.ar.Capabilities.Supports(capability.Filter) {
		_ = r.Capabilities.Set(capability.Filter) // has no argument
		r.Filter = packp.FilterTreeDepth(0)
	}
	res, err := c.session.UploadPack(ctx, r)
	if err != nil {
		return err
	}
	defer func() { _ = res.Close() }()
	// A store of its own: a pack for each new record would make the store of the branch grow with every fetch.
	s, err := newStore(f.git.nextDir(), f.git.room, f.git.options.Space)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.remove()) }()
	if err := s.ingest(ctx, unpacked(r, res), recordLimits(len(hashes))); err != nil {
		return err
	}
	for _, hash := range hashes {
		f.found[hash] = s.readRecord(hash)
	}
	return nil
}

// readRecord reads the commit of a record.
func (s *store) readRecord(hash plumbing.Hash) Record {
	r := Record{Hash: hash.String()}
	if !s.has(hash) {
		r.Problem = "the host did not send the commit"
		return r
	}
	data, err := s.raw(plumbing.CommitObject, hash, func(plumbing.EncodedObject) error { return nil })
	if err != nil {
		r.Problem = "the reference does not point to a commit"
		return r
	}
	r.Data = data
	return r
}

// PushRecord makes one of the references point to a commit without files, and returns which: the first one that the host
// accepts. It replaces whatever the reference pointed to. data is the commit as Git stores it.
//
// The error is a *RecordPushError, or one of Fetch's.
func (g *Git) PushRecord(ctx context.Context, req Request, refs []string, data []byte) (ref string, err error) {
	ctx, cancel := g.bound(ctx)
	defer cancel()
	if err := g.sweep(); err != nil {
		return "", err
	}
	made := memory.NewStorage()
	commit := made.NewEncodedObject()
	commit.SetType(plumbing.CommitObject)
	if err := write(commit, data); err != nil {
		return "", err
	}
	hash, err := made.SetEncodedObject(commit)
	if err != nil {
		return "", err
	}
	if _, err := keep(made, &object.Tree{}); err != nil { // the tree of the commit, which a host may not have
		return "", err
	}
	req.Records = refs
	for _, ref = range refs {
		err = g.pushRef(ctx, req, ref, hash, made)
		var refused *RecordPushError
		if err == nil || !errors.As(err, &refused) || refused.Denied {
			break
		}
	}
	return ref, err
}

func write(o plumbing.EncodedObject, data []byte) error {
	w, err := o.Writer()
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return errors.Join(err, w.Close())
}

// pushRef makes a reference point to a commit, whatever it pointed to.
func (g *Git) pushRef(ctx context.Context, req Request, ref string, commit plumbing.Hash, made storer.EncodedObjectStorer) error {
	name := plumbing.ReferenceName(ref)
	if err := name.Validate(); err != nil || !strings.Contains(ref, "/plumbline/") {
		return fmt.Errorf("push %q: it is not a reference of a record", ref)
	}
	l := &line{dir: g.dir()}
	defer func() {
		if g.options.OnFetch != nil {
			g.options.OnFetch(FetchStats{Received: l.received.Load()})
		}
	}()
	c, err := openReceiver(ctx, req, l)
	if err != nil {
		return recordPushFailed(ctx, err, req, ref)
	}
	defer func() { _ = c.Close() }()
	ar, has, err := advertised(ctx, c)
	if err != nil {
		return recordPushFailed(ctx, err, req, ref)
	}
	if has.tips[ref] == commit {
		return nil
	}
	objects := []plumbing.Hash{commit}
	for _, tree := range made.(*memory.Storage).Trees {
		objects = append(objects, tree.Hash())
	}
	var pack bytes.Buffer
	if _, err := packfile.NewEncoder(&pack, made, false).Encode(objects, 0); err != nil {
		return fmt.Errorf("pack the record %s: %w", commit, err)
	}
	update, said := packp.NewReferenceUpdateRequest(), &firstBytes{}
	for _, k := range []capability.Capability{capability.ReportStatus, capability.Sideband64k} {
		if ar.Capabilities.Supports(k) {
			_ = update.Capabilities.Set(k) // fails only for capabilities with an argument
		}
	}
	update.Progress = said
	update.Commands = []*packp.Command{{Name: name, Old: has.tips[ref], New: commit}}
	update.Packfile = io.NopCloser(&pack)
	report, err := c.ReceivePack(ctx, update)
	if report != nil && report.Error() != nil {
		err = fmt.Errorf("%w %s", report.Error(), said)
		return &RecordPushError{URL: bare(req.URL), Ref: ref, Err: hideSecrets(err, req.URL, req.Credentials)}
	}
	return recordPushFailed(ctx, err, req, ref)
}

// RecordPushError reports that a host rejects the record of a cluster.
type RecordPushError struct {
	URL, Ref string
	// Denied reports whether the host rejects the credentials, or requires some with push access.
	Denied bool
	Err    error
}

// Error says which permission is missing.
func (e *RecordPushError) Error() string {
	if e.Denied {
		return fmt.Sprintf("push the record of this cluster to %s of %s: the host refuses the credentials: %v: let the secret that source.git.secretRef names push this reference", e.Ref, e.URL, e.Err)
	}
	return fmt.Sprintf("push the record of this cluster to %s of %s: the host does not take it: %v: allow this reference to be created and to be replaced (a forced push)", e.Ref, e.URL, e.Err)
}

// Unwrap returns the host's error.
func (e *RecordPushError) Unwrap() error { return e.Err }

// recordPushFailed converts the error of a push into one of this package's errors.
func recordPushFailed(ctx context.Context, err error, req Request, ref string) error {
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
	return &RecordPushError{URL: bare(req.URL), Ref: ref, Denied: true, Err: err}
}
