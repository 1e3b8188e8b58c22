package charts

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/plumbline-dev/plumbline/internal/trust"
)

// maxRedirects is how often one request may be redirected.
const maxRedirects = 5

// session sends the requests of one Resolve. It trusts each host's CA for that host
// only, and sends its credentials to no other, whatever it answers: redirects are
// followed without credentials, and a token service on another host gets none unless
// the NodeSync names that host as well.
type session struct {
	base *http.Transport
	keys Keys
	// home is the host of the repository.
	home string
	// basic sends credentials with the first request to a host. Registries ask
	// for them.
	basic bool

	mu    sync.Mutex
	hosts map[string]*hostAccess
}

// hostAccess is how requests are sent to one host.
type hostAccess struct {
	credentials Credentials
	transport   *http.Transport
	// own says that the transport is for this host only.
	own bool
}

func (s *session) client() *http.Client {
	return &http.Client{Transport: s, CheckRedirect: func(_ *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return fmt.Errorf("it is redirected more than %d times", maxRedirects)
		}
		return nil
	}}
}

// RoundTrip sends one request.
func (s *session) RoundTrip(r *http.Request) (*http.Response, error) {
	host := r.URL.Host
	if r.URL.Scheme != "https" && !loopback(host) {
		return nil, fmt.Errorf("%s would be requested over plain HTTP, which only loopback addresses may use", host)
	}
	if loopback(host) && !loopback(s.home) {
		return nil, fmt.Errorf("%s leads to %s, which is the machine that plumbline runs on: only a repository on a loopback address may name one", s.home, host)
	}
	d, err := s.access(r.Context(), host)
	if err != nil {
		return nil, err
	}
	sent := r.Clone(r.Context())
	switch {
	case host != first(r).URL.Host:
		sent.Header.Del("Authorization")
	case s.basic && !d.credentials.anonymous():
		sent.SetBasicAuth(d.credentials.Username, d.credentials.Password)
	case host != s.home && sent.Header.Get("Authorization") != "":
		home, err := s.access(r.Context(), s.home)
		if err != nil {
			return nil, err
		}
		if !d.credentials.same(home.credentials) {
			return nil, &tokenHostError{host: host, home: s.home}
		}
	}
	return d.transport.RoundTrip(sent)
}

// first is the request that was redirected to this one.
func first(r *http.Request) *http.Request {
	for r.Response != nil && r.Response.Request != nil {
		r = r.Response.Request
	}
	return r
}

// access returns how requests are sent to a host. Its keys are read once.
func (s *session) access(ctx context.Context, host string) (*hostAccess, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.hosts[host]; ok {
		return known, nil
	}
	d := &hostAccess{transport: s.base}
	if s.keys != nil {
		var err error
		if d.credentials, err = s.keys(ctx, host); err != nil {
			return nil, &keysError{err: err}
		}
	}
	if len(d.credentials.CA) > 0 {
		pool, err := authorities(d.credentials.CA)
		if err != nil {
			return nil, &keysError{err: err}
		}
		d.transport, d.own = s.base.Clone(), true
		if d.transport.TLSClientConfig == nil {
			d.transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		d.transport.TLSClientConfig.RootCAs = pool
	}
	if s.hosts == nil {
		s.hosts = map[string]*hostAccess{}
	}
	s.hosts[host] = d
	return d, nil
}

// close closes the connections that only this session uses.
func (s *session) close() {
	for _, d := range s.hosts {
		if d.own {
			d.transport.CloseIdleConnections()
		}
	}
}

// authorities are the system's and those of a PEM bundle.
func authorities(bundle []byte) (*x509.CertPool, error) {
	pool, found := trust.With(bundle)
	if !found {
		return nil, &SecretError{Key: keyCA, Reason: "holds no certificate in PEM form"}
	}
	return pool, nil
}

// keysError says that the keys of a host are unavailable. It carries the error of Keys
// past the HTTP client.
type keysError struct{ err error }

func (e *keysError) Error() string { return e.err.Error() }
func (e *keysError) Unwrap() error { return e.err }

// tokenHostError says that a registry gets its tokens from another host.
type tokenHostError struct{ host, home string }

func (e *tokenHostError) Error() string {
	return fmt.Sprintf("%s asks for its credentials to be sent to %s, which they are not for: if that is intended, name %s under spec.charts.registries, with the same secret", e.home, e.host, e.host)
}

// secrets are the values that no message may contain.
func (s *session) secrets() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var values []string
	for _, d := range s.hosts {
		if d.credentials.Password != "" {
			values = append(values, d.credentials.Password)
		}
	}
	return values
}

// originOf names what a host's credentials were read from; empty without credentials.
func (s *session) originOf(host string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d, ok := s.hosts[host]; ok && !d.credentials.anonymous() {
		return d.credentials.Origin
	}
	return ""
}

// untrusted says whether an error is about a certificate that is not trusted.
func untrusted(err error) bool {
	var verification *tls.CertificateVerificationError
	return errors.As(err, &verification)
}
