package source

import (
	"context"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
)

// conversation is a session that has said what the host has.
type conversation struct {
	session session
	ar      *packp.AdvRefs
	has     refs
	target  target

	line   *line
	report func(FetchStats)
}

// converse asks a host what it has.
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

// end hangs up: what the host had to say, it has said.
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
			_ = r.Capabilities.Set(k) // fails for capabilities with an argument only
		}
	}
	return r
}

// first is the request of a clone: the target at depth 1, or, for a commit that
// the host does not give out by its hash, the history in which it stands.
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

// unpacked is the pack of an answer, without what runs beside it.
func unpacked(req *packp.UploadPackRequest, res *packp.UploadPackResponse) io.Reader {
	switch {
	case req.Capabilities.Supports(capability.Sideband64k):
		return sideband.NewDemuxer(sideband.Sideband64k, res)
	case req.Capabilities.Supports(capability.Sideband):
		return sideband.NewDemuxer(sideband.Sideband, res)
	}
	return res
}
