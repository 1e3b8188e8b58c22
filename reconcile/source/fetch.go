package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"

	"github.com/plumbline-dev/plumbline/render"
)

// maxAdded is how much one fetch may add beyond the size of the clone. More than that indicates a rewritten history,
// which is cheaper to clone.
const maxAdded = 1 << 20

// errNeedsClone reports that no fetch can build on the store: clone again.
var errNeedsClone = errors.New("a new clone is needed")

func (g *Git) fetch(ctx context.Context, s *slot, req Request) (*render.Snapshot, target, error) {
	if err := g.claim(s, req); err != nil {
		return nil, target{}, err
	}
	if s.store != nil && s.store.usable() {
		snapshot, t, err := g.follow(ctx, s, req)
		if !errors.Is(err, errNeedsClone) {
			return snapshot, t, err
		}
	}
	return g.clone(ctx, s, req)
}

// follow updates the existing store.
func (g *Git) follow(ctx context.Context, s *slot, req Request) (*render.Snapshot, target, error) {
	c, err := g.converse(ctx, req)
	if err != nil {
		return nil, target{}, err
	}
	defer c.end()
	if err := s.refuses(c.target); err != nil {
		return nil, target{}, err
	}
	// A new tag may point to a commit that is already there.
	if !s.store.has(c.target.commit) || !s.store.has(c.target.want) {
		if s.store.grown() || c.target.history {
			return nil, target{}, errNeedsClone
		}
		if err := g.increment(ctx, s.store, c); err != nil {
			return nil, target{}, err
		}
	}
	// A host may report an incomplete fetch as complete, so verify it.
	if err := s.store.prove(ctx, c.target.commit, req.Path); err != nil {
		if ctx.Err() != nil {
			return nil, target{}, err
		}
		return nil, target{}, fmt.Errorf("%w: %w", errNeedsClone, err)
	}
	snapshot, err := g.snapshot(s.store, c.target)
	if err == nil {
		g.fetchRecords(ctx, s, c, req)
	}
	return snapshot, c.target, err
}

// increment fetches what is new since the last tip.
func (g *Git) increment(ctx context.Context, store *store, c *conversation) error {
	r := c.request(c.target.want)
	r.Haves, r.Shallows = []plumbing.Hash{store.tip}, store.shallow
	limit := g.limits()
	limit.pack = min(limit.pack, store.cloned+maxAdded)
	res, err := c.session.UploadPack(ctx, r)
	if err != nil {
		if ctx.Err() == nil && unwanted(err) {
			return errNeedsClone // the tip has moved in the meantime
		}
		return err
	}
	defer func() { _ = res.Close() }()
	if len(res.ACKs) == 0 {
		return errNeedsClone // the host no longer has the old tip
	}
	err = store.ingest(ctx, unpacked(r, res), limit)
	var large *LimitError
	var full *SpaceError
	if errors.Is(err, errTooMuch) || errors.As(err, &large) || errors.As(err, &full) {
		return errNeedsClone // the large object may be in a commit in between only; a new clone replaces the store
	}
	return err
}

// clone fetches only the target into a new store, which then replaces the old one.
func (g *Git) clone(ctx context.Context, s *slot, req Request) (*render.Snapshot, target, error) {
	c, err := g.converse(ctx, req)
	if err != nil {
		return nil, target{}, err
	}
	defer c.end()
	if err := s.refuses(c.target); err != nil {
		return nil, target{}, err
	}
	fresh, err := newStore(g.nextDir(), g.room, g.options.Space)
	if err != nil {
		return nil, target{}, err
	}
	old := s.store
	counted := old.uncount()
	if err := g.fill(ctx, fresh, c, req); err != nil {
		err = errors.Join(s.refuse(c.target, err), fresh.remove())
		old.count(counted)
		return nil, target{}, err
	}
	s.store = fresh
	if old != nil {
		if err := old.remove(); err != nil {
			return nil, target{}, err
		}
	}
	snapshot, err := g.snapshot(fresh, c.target)
	if err == nil {
		g.fetchRecords(ctx, s, c, req)
	}
	return snapshot, c.target, err
}

func (g *Git) fill(ctx context.Context, fresh *store, c *conversation, req Request) error {
	r, err := c.first(req)
	if err != nil {
		return err
	}
	res, err := c.session.UploadPack(ctx, r)
	if err != nil {
		if ctx.Err() == nil && unwanted(err) {
			return &NotFoundError{URL: bare(req.URL), What: "commit " + c.target.commit.String()}
		}
		return err
	}
	defer func() { _ = res.Close() }()
	fresh.shallow = res.Shallows
	err = fresh.ingest(ctx, unpacked(r, res), g.limits())
	if errors.Is(err, errTooMuch) {
		return &LimitError{What: "the repository " + bare(req.URL), Limit: g.options.MaxBytes, Flag: StoreLimitFlag}
	}
	if err != nil {
		return err
	}
	fresh.cloned = fresh.bytes
	if !fresh.has(c.target.commit) && c.target.history {
		return &NotFoundError{URL: bare(req.URL), What: "commit " + c.target.commit.String()}
	}
	err = fresh.prove(ctx, c.target.commit, req.Path)
	var limit *LimitError
	var lost *missing
	switch {
	case ctx.Err() != nil:
		return err
	case errors.As(err, &limit):
		return limit
	case errors.As(err, &lost):
		return &MissingError{URL: bare(req.URL), Object: lost.hash.String(), Name: lost.name}
	}
	return nil
}

func (g *Git) limits() limits {
	const inflated = 8 // the ratio of a pack's content to its compressed size
	return limits{
		pack: g.options.MaxBytes, object: g.options.MaxObjectBytes, content: inflated * g.options.MaxBytes, objects: g.options.MaxObjects,
		memory: g.options.MaxMemory,
	}
}

// refuse remembers a target that is too large.
func (s *slot) refuse(t target, err error) error {
	var limit *LimitError
	if errors.As(err, &limit) {
		s.refused = refusal{commit: t.commit, err: err}
	}
	return err
}

func (s *slot) refuses(t target) error {
	if s.refused.commit == t.commit {
		return s.refused.err
	}
	return nil
}

// snapshot returns the Snapshot of a commit that was verified to be complete.
func (g *Git) snapshot(s *store, t target) (*render.Snapshot, error) {
	if s.view == nil || s.tip != t.commit {
		root, err := s.root(t.commit)
		if err != nil {
			return nil, &StoreError{Err: err}
		}
		s.tip, s.view = t.commit, newTree(s, root, t.revision(), g.options.MaxFileBytes)
	}
	snapshot := &render.Snapshot{Revision: t.revision(), Commit: t.commit.String(), FS: s.view}
	if t.annotated() {
		snapshot.Tag = t.want.String()
	}
	return snapshot, nil
}

// conversation is a session whose references have been read.
type conversation struct {
	session session
	ar      *packp.AdvRefs
	has     refs
	target  target

	line   *line
	report func(FetchStats)
}

// converse connects to a host and reads its references.
func (g *Git) converse(ctx context.Context, req Request) (*conversation, error) {
	c := &conversation{line: &line{dir: g.dir()}, report: g.options.OnFetch}
	err := c.begin(ctx, req)
	if err != nil {
		c.end()
		return nil, err
	}
	return c, nil
}

func (c *conversation) begin(ctx context.Context, req Request) (err error) {
	if c.session, err = open(ctx, req, c.line); err != nil {
		return err
	}
	if c.ar, c.has, err = advertised(ctx, c.session); err != nil {
		return err
	}
	c.target, err = resolve(req.Ref, c.has, bare(req.URL))
	return err
}

// end closes the session and reports its statistics. Close errors do not matter: all data has been read.
func (c *conversation) end() {
	if c.session != nil {
		_ = c.session.Close()
	}
	if c.report != nil {
		c.report(FetchStats{Received: c.line.received.Load()})
	}
}

func (c *conversation) request(want plumbing.Hash) *packp.UploadPackRequest {
	r := packp.NewUploadPackRequestFromCapabilities(c.ar.Capabilities)
	r.Wants = []plumbing.Hash{want}
	for _, k := range []capability.Capability{capability.Shallow, capability.NoProgress} {
		if c.ar.Capabilities.Supports(k) {
			_ = r.Capabilities.Set(k) // fails only for capabilities with an argument
		}
	}
	return r
}

// first returns the request of a clone: the target at depth 1, or, for a commit that the host does not serve by hash,
// the whole history that contains it.
func (c *conversation) first(req Request) (*packp.UploadPackRequest, error) {
	caps := c.ar.Capabilities
	byHash := caps.Supports(capability.AllowReachableSHA1InWant) || caps.Supports(capability.AllowTipSHA1InWant)
	if c.target.history && !byHash {
		tip, err := c.has.below(req.Ref, bare(req.URL))
		if err != nil {
			return nil, err
		}
		return c.request(tip), nil
	}
	r := c.request(c.target.want)
	if caps.Supports(capability.Shallow) {
		r.Depth = packp.DepthCommits(1)
	}
	return r, nil
}

// unpacked returns the pack of a response, without the other sidebands.
func unpacked(req *packp.UploadPackRequest, res *packp.UploadPackResponse) io.Reader {
	switch {
	case req.Capabilities.Supports(capability.Sideband64k):
		return sideband.NewDemuxer(sideband.Sideband64k, res)
	case req.Capabilities.Supports(capability.Sideband):
		return sideband.NewDemuxer(sideband.Sideband, res)
	}
	return res
}

// advertiser is a connection on which the host first sends its references.
type advertiser interface {
	AdvertisedReferencesContext(ctx context.Context) (*packp.AdvRefs, error)
	Close() error
}

// session is one connection to a Git host: its references, then at most one pack. go-git's HTTP sessions implement it,
// and so does sshSession.
//
// plumbline uses it directly, without go-git's Remote, which connects to the host twice and reports success for a fetch
// whose tip has not arrived.
type session interface {
	advertiser
	UploadPack(ctx context.Context, req *packp.UploadPackRequest) (*packp.UploadPackResponse, error)
}

// open opens a session for a fetch.
func open(ctx context.Context, req Request, l *line) (session, error) {
	ep, err := endpoint(req)
	if err != nil {
		return nil, err
	}
	if ep.Protocol != "ssh" {
		return openHTTP(ep, req, l)
	}
	s, err := openSSH(ctx, ep, req, l, transport.UploadPackServiceName)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// openReceiver opens a session for a push.
func openReceiver(ctx context.Context, req Request, l *line) (receiver, error) {
	ep, err := endpoint(req)
	if err != nil {
		return nil, err
	}
	if ep.Protocol != "ssh" {
		return receiveHTTP(ep, req, l)
	}
	s, err := openSSH(ctx, ep, req, l, transport.ReceivePackServiceName)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// endpoint returns the host and path of a URL.
func endpoint(req Request) (*transport.Endpoint, error) {
	u, err := url.Parse(req.URL)
	if err != nil || u.Host == "" {
		return nil, &URLError{URL: bare(req.URL), Reason: "is no URL of a host"}
	}
	switch u.Scheme {
	case "http", "https", "ssh":
	default:
		return nil, &URLError{URL: bare(req.URL), Reason: "has the scheme " + u.Scheme + ", which is not fetched from"}
	}
	ep, err := transport.NewEndpoint(req.URL)
	if err != nil {
		return nil, &URLError{URL: bare(req.URL), Reason: "cannot be read"}
	}
	return ep, nil
}

// advertised reads the host's references.
func advertised(ctx context.Context, s advertiser) (*packp.AdvRefs, refs, error) {
	ar, err := s.AdvertisedReferencesContext(ctx)
	if err != nil {
		return nil, refs{}, err
	}
	has := refs{tips: ar.References, peeled: ar.Peeled}
	if ar.Head != nil {
		has.tips = make(map[string]plumbing.Hash, len(ar.References)+1)
		for name, tip := range ar.References {
			has.tips[name] = tip
		}
		has.tips["HEAD"] = *ar.Head
	}
	return ar, has, nil
}
