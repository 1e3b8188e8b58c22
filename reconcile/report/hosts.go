package report

import (
	"context"
	"crypto/sha256"
	"net/http"
	"time"

	"github.com/plumbline-dev/plumbline/internal/trust"
)

// Hosts makes the clients of Git hosts, and keeps the tokens that GitHub gives to
// apps until shortly before they end. It may be used by several goroutines.
type Hosts struct {
	// Now is the time.
	Now func() time.Time

	tokens     tokens
	identities identities
	hashes     hashes
}

// adapter is what one kind of host wants sent, and how. It has no I/O.
type adapter struct {
	// locate finds the repository in the path of its URL, or says what is wrong with
	// it. A host without one gets statuses at the URL itself.
	locate func(host string, path []string) (at place, reason string)
	// credentials reads what opens the host from a Secret.
	credentials func(reader) (credentials, error)
	// status is the request that posts a status.
	status func(repository, Status) request
	// page is where a browser shows a folder; nil where the host has no pages.
	page func(r repository, commit, folder string) string
	// meant returns the code of an answer as other hosts would send it. It may be nil.
	meant func(answer, Status) int
	// review is how pull requests are read and commented on; nil where they are not.
	review *reviewing
	// propose is how pull requests are opened; nil where they are not.
	propose *proposing
}

// adapters are the kinds of hosts, by the provider in spec.report.
func adapters() map[string]adapter {
	return map[string]adapter{
		"azuredevops":     azureDevOps(),
		"bitbucket":       bitbucket(),
		"bitbucketserver": bitbucketServer(),
		"forgejo":         gitea(),
		"generic":         generic(),
		"gitea":           gitea(),
		"github":          github(),
		"gitlab":          gitlab(),
	}
}

// Host returns the client for a provider, the kind of the host. repository is the
// URL of the repository's web page, or the one it is cloned from over http; for the
// provider generic the URL that accepts the statuses. The error is a *RepositoryError or
// a *SecretError.
func (h *Hosts) Host(provider, repository string, secret map[string][]byte) (Poster, error) {
	return h.open(provider, repository, secret, permissions{"statuses": "write"})
}

// permissions are what a GitHub App's token is to have, and nothing else.
type permissions map[string]string

func (h *Hosts) open(provider, repository string, secret map[string][]byte, rights permissions) (*poster, error) {
	kind, known := adapters()[provider]
	if !known {
		return nil, &RepositoryError{URL: Clean(repository), Reason: "is on a host of the kind " + provider + ", which is not known"}
	}
	r, err := parse(repository, kind.locate)
	if err != nil {
		return nil, err
	}
	client, err := client(secret[keyCA])
	if err != nil {
		return nil, err
	}
	w := wire{client: client}
	c, err := kind.credentials(reader{secret: secret, hosts: h, wire: w, repository: r, rights: rights})
	if err != nil {
		return nil, err
	}
	return &poster{adapter: kind, wire: w, repository: r, credentials: c, hosts: h}, nil
}

// poster posts on one repository of a host.
type poster struct {
	adapter
	wire
	repository  repository
	credentials credentials
	hosts       *Hosts
	// opens is a sum of what opens the host, for a Reviewer.
	opens [sha256.Size]byte
}

// Post posts one status.
func (p *poster) Post(ctx context.Context, s Status) error {
	a, err := p.ask(ctx, p.status(p.repository, s))
	if err != nil {
		return err
	}
	return p.judge(a, Task{}, s)
}

// judge turns an answer into an error, or nil, as this kind of host means it.
func (p *poster) judge(a answer, task Task, s Status) error {
	if p.meant != nil {
		a.code = p.meant(a, s)
	}
	return judge(a, p.repository, task, s.Commit)
}

// ask makes a request. A token that was kept and that the host has taken back is replaced once.
func (p *poster) ask(ctx context.Context, r request) (answer, error) {
	a, err := p.send(ctx, r, p.credentials)
	if err == nil && a.code == http.StatusUnauthorized && p.credentials.renew() {
		a, err = p.send(ctx, r, p.credentials)
	}
	return a, err
}

// client trusts the system's authorities and that of the secret, and goes through the
// proxy of HTTP_PROXY, HTTPS_PROXY and NO_PROXY, as the source does. A status is one
// request now and then, so no connection is kept.
func client(ca []byte) (*http.Client, error) {
	transport, trusted := trust.Transport(ca)
	if !trusted {
		return nil, &SecretError{Key: keyCA, Reason: "holds no certificate in PEM form"}
	}
	transport.DisableKeepAlives = true
	return &http.Client{Transport: transport, CheckRedirect: stayHome}, nil
}

// stayHome follows a redirect that keeps the method and the host, as GitHub
// sends for a repository that was renamed, and no other: it carries the token.
func stayHome(req *http.Request, via []*http.Request) error {
	const most = 3
	first := via[0].URL
	if req.Method != via[0].Method || req.URL.Host != first.Host || req.URL.Scheme != first.Scheme || len(via) > most {
		return http.ErrUseLastResponse
	}
	return nil
}
