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
}

func converse(ctx context.Context, req Request, dir string) (*conversation, error) {
	s, err := open(ctx, req, dir)
	if err != nil {
		return nil, err
	}
	c := &conversation{session: s}
	if c.ar, c.has, err = advertised(ctx, s); err == nil {
		c.target, err = resolve(req.Ref, c.has, bare(req.URL))
	}
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	return c, nil
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
