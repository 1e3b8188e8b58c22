package source

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"

	"github.com/plumbline-dev/plumbline/internal/trust"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

const (
	// maxAdvertisement bounds the list of references: some 500,000 of them.
	maxAdvertisement = 64 << 20
	// maxRefusal bounds what is read of an answer that says no.
	maxRefusal = 4 << 10
)

// httpSession closes its connections when it ends, so that a host that is asked
// once a minute holds none in between.
type httpSession struct {
	session
	transport *http.Transport
}

func (s *httpSession) Close() error {
	err := s.session.Close()
	s.transport.CloseIdleConnections()
	return err
}

// httpReceiver is the same for a push.
type httpReceiver struct {
	receiver
	transport *http.Transport
}

func (r *httpReceiver) Close() error {
	err := r.receiver.Close()
	r.transport.CloseIdleConnections()
	return err
}

func openHTTP(ep *transport.Endpoint, req Request, l *line) (session, error) {
	client, t, err := httpClient(req, l)
	if err != nil {
		return nil, err
	}
	s, err := client.NewUploadPackSession(ep, httpAuth(req.Credentials))
	if err != nil {
		return nil, err
	}
	return &httpSession{session: s, transport: t}, nil
}

func receiveHTTP(ep *transport.Endpoint, req Request, l *line) (receiver, error) {
	client, t, err := httpClient(req, l)
	if err != nil {
		return nil, err
	}
	s, err := client.NewReceivePackSession(ep, httpAuth(req.Credentials))
	if err != nil {
		return nil, err
	}
	return &httpReceiver{receiver: s, transport: t}, nil
}

func httpClient(req Request, l *line) (transport.Transport, *http.Transport, error) {
	pool, err := authorities(req.Credentials.CA)
	if err != nil {
		return nil, nil, err
	}
	t := &http.Transport{
		Proxy:             http.ProxyFromEnvironment,
		DialContext:       l.dial,
		TLSClientConfig:   &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true,
	}
	return githttp.NewClient(&http.Client{Transport: &bounded{next: t, ref: req.Ref}}), t, nil
}

// authorities are the system's and those of the secret; nil for only the system's.
func authorities(ca []byte) (*x509.CertPool, error) {
	if len(ca) == 0 {
		return nil, nil // crypto/tls takes no pool for the system's
	}
	pool, found := trust.With(ca)
	if !found {
		return nil, &SecretError{Key: keyCA, Reason: "holds no certificate in PEM form"}
	}
	return pool, nil
}

// httpAuth is nil for nobody; go-git takes only an untyped nil for that.
func httpAuth(c Credentials) transport.AuthMethod {
	switch {
	case c.BearerToken != "":
		return &githttp.TokenAuth{Token: c.BearerToken}
	case c.Username != "" || c.Password != "":
		return &githttp.BasicAuth{Username: c.Username, Password: c.Password}
	}
	return nil
}

// bounded keeps a host from filling the memory with references or with an error
// page: go-git reads both whole. Packs are bounded where they are written.
type bounded struct {
	next http.RoundTripper
	// ref is what the list of references is read for.
	ref v1alpha1.GitRef
}

func (b *bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := b.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	switch {
	case res.StatusCode >= http.StatusMultipleChoices:
		res.Body = cut{Reader: io.LimitReader(res.Body, maxRefusal), Closer: res.Body}
	case strings.HasSuffix(req.URL.Path, "/info/refs"):
		limit := &LimitError{What: "the host's list of references", Limit: maxAdvertisement}
		list := bufio.NewReader(&limitedReader{r: res.Body, left: maxAdvertisement, over: limit})
		res.Body = cut{Reader: onlyWanted(list, b.ref), Closer: res.Body}
	}
	return res, nil
}

type cut struct {
	io.Reader
	io.Closer
}

// limitedReader fails with over when more than left bytes are read.
type limitedReader struct {
	r    io.Reader
	left int64
	over error
}

func (l *limitedReader) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, l.over
	}
	return n, err
}
