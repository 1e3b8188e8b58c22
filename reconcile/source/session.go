package source

import (
	"context"
	"net/url"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
)

// advertiser is a conversation that begins with what the host has.
type advertiser interface {
	AdvertisedReferencesContext(ctx context.Context) (*packp.AdvRefs, error)
	Close() error
}

// session is one conversation with a Git host: what it has, then at most one
// pack. go-git's sessions over http are of this kind, and so are ours over ssh.
//
// It is spoken directly, without go-git's Remote: that asks the host twice, and
// calls a fetch a success whose tip has not arrived.
type session interface {
	advertiser
	UploadPack(ctx context.Context, req *packp.UploadPackRequest) (*packp.UploadPackResponse, error)
}

// open begins a conversation.
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

// openReceiver begins a conversation in which the host is to take something.
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

// endpoint is the host and the path of a URL.
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

// advertised asks what the host has.
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
