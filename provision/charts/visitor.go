package charts

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"sync"
)

// maxRedirects is how often one request may be sent on.
const maxRedirects = 5

// visitor speaks to the hosts that one Resolve leads to. It trusts each host's
// authority for that host, and whatever a host answers, what opens it goes to no
// other: redirects are followed without credentials, and a token service
// elsewhere gets none unless the NodeSync names its host as well.
type visitor struct {
	base *http.Transport
	keys Keys
	// home is the host of the repository.
	home string
	// basic sends credentials with the first request to a host. Registries ask
	// for them.
	basic bool

	mu    sync.Mutex
	doors map[string]*door
}

// door is how one host is spoken to.
type door struct {
	credentials Credentials
	transport   *http.Transport
	// own says that the transport is this door's alone.
	own bool
}

func (v *visitor) client() *http.Client {
	return &http.Client{Transport: v, CheckRedirect: func(_ *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return fmt.Errorf("it is redirected more than %d times", maxRedirects)
		}
		return nil
	}}
}

// RoundTrip sends one request.
func (v *visitor) RoundTrip(r *http.Request) (*http.Response, error) {
	host := r.URL.Host
	if r.URL.Scheme != "https" && !loopback(host) {
		return nil, fmt.Errorf("%s is to be asked in plain HTTP, which is for loopback addresses alone", host)
	}
	d, err := v.door(r.Context(), host)
	if err != nil {
		return nil, err
	}
	sent := r.Clone(r.Context())
	switch {
	case host != first(r).URL.Host:
		sent.Header.Del("Authorization")
	case v.basic && !d.credentials.anonymous():
		sent.SetBasicAuth(d.credentials.Username, d.credentials.Password)
	case host != v.home && sent.Header.Get("Authorization") != "":
		home, err := v.door(r.Context(), v.home)
		if err != nil {
			return nil, err
		}
		if !d.credentials.same(home.credentials) {
			return nil, &tokenHostError{host: host, home: v.home}
		}
	}
	return d.transport.RoundTrip(sent)
}

// first is the request that redirects have made this one of.
func first(r *http.Request) *http.Request {
	for r.Response != nil && r.Response.Request != nil {
		r = r.Response.Request
	}
	return r
}

// door opens a host, with its keys read once.
func (v *visitor) door(ctx context.Context, host string) (*door, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if known, ok := v.doors[host]; ok {
		return known, nil
	}
	d := &door{transport: v.base}
	if v.keys != nil {
		var err error
		if d.credentials, err = v.keys(ctx, host); err != nil {
			return nil, &keysError{err: err}
		}
	}
	if len(d.credentials.CA) > 0 {
		pool, err := authorities(d.credentials.CA)
		if err != nil {
			return nil, &keysError{err: err}
		}
		d.transport, d.own = v.base.Clone(), true
		if d.transport.TLSClientConfig == nil {
			d.transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		d.transport.TLSClientConfig.RootCAs = pool
	}
	if v.doors == nil {
		v.doors = map[string]*door{}
	}
	v.doors[host] = d
	return d, nil
}

// close lets go of the connections that nobody else uses.
func (v *visitor) close() {
	for _, d := range v.doors {
		if d.own {
			d.transport.CloseIdleConnections()
		}
	}
}

// authorities are the system's and those of a PEM bundle.
func authorities(bundle []byte) (*x509.CertPool, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(bundle) {
		return nil, &SecretError{Key: keyCA, Reason: "holds no certificate in PEM form"}
	}
	return pool, nil
}

// keysError says that the keys of a host could not be had. It carries the error
// of whoever was asked for them past the HTTP client.
type keysError struct{ err error }

func (e *keysError) Error() string { return e.err.Error() }
func (e *keysError) Unwrap() error { return e.err }

// tokenHostError says that a registry has its tokens made by another host.
type tokenHostError struct{ host, home string }

func (e *tokenHostError) Error() string {
	return fmt.Sprintf("%s wants the credentials sent to %s, which they are not for: if that is right, name %s under spec.charts.registries, with the same secret", e.home, e.host, e.host)
}

// secrets are the values that may stand in no message.
func (v *visitor) secrets() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var values []string
	for _, d := range v.doors {
		if d.credentials.Password != "" {
			values = append(values, d.credentials.Password)
		}
	}
	return values
}

// originOf names what a host was opened with; empty where with nothing.
func (v *visitor) originOf(host string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if d, ok := v.doors[host]; ok && !d.credentials.anonymous() {
		return d.credentials.Origin
	}
	return ""
}

// untrusted says whether a host's certificate was not believed.
func untrusted(err error) bool {
	var verification *tls.CertificateVerificationError
	return errors.As(err, &verification)
}
