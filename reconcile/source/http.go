package source

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	"golang.org/x/crypto/ssh"

	"github.com/plumbline-dev/plumbline/internal/trust"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

const (
	// maxAdvertisement limits the list of references: about 500,000 of them.
	maxAdvertisement = 64 << 20
	// maxRefusal limits what is read of an error response.
	maxRefusal = 4 << 10
)

// httpSession closes its connections when it is closed, so that a host polled once a minute holds none in between.
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
	return githttp.NewClient(&http.Client{Transport: &bounded{next: t, ref: req.Ref, records: req.Records}}), t, nil
}

// authorities returns the system's authorities and those of the Secret; nil for only the system's.
func authorities(ca []byte) (*x509.CertPool, error) {
	if len(ca) == 0 {
		return nil, nil // crypto/tls uses the system's if the pool is nil
	}
	pool, found := trust.With(ca)
	if !found {
		return nil, &SecretError{Key: keyCA, Reason: "holds no certificate in PEM form"}
	}
	return pool, nil
}

// httpAuth returns nil for an anonymous request; go-git only accepts an untyped nil.
func httpAuth(c Credentials) transport.AuthMethod {
	switch {
	case c.BearerToken != "":
		return &githttp.TokenAuth{Token: c.BearerToken}
	case c.Username != "" || c.Password != "":
		return &githttp.BasicAuth{Username: c.Username, Password: c.Password}
	}
	return nil
}

// bounded prevents a host from filling the memory with references or an error page, which go-git reads completely.
// Packs are limited when they are written.
type bounded struct {
	next http.RoundTripper
	// ref is the GitRef to be resolved from the list of references, and records are further references to keep.
	ref     v1alpha1.GitRef
	records []string
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
		res.Body = cut{Reader: onlyWanted(list, b.ref, b.records), Closer: res.Body}
	}
	return res, nil
}

type cut struct {
	io.Reader
	io.Closer
}

// limitedReader fails with over if more than left bytes are read.
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

// Credentials authenticate to a Git host. The zero value is anonymous.
type Credentials struct {
	Username, Password string
	BearerToken        string
	// CA is a PEM bundle of authorities, in addition to the system's.
	CA []byte
	// Identity is a private ssh key; KnownHosts are the accepted host keys.
	Identity, KnownHosts []byte
	// IdentityPassword decrypts an encrypted Identity.
	IdentityPassword []byte
}

// anonymous reports whether a request carries no credentials: neither from a Secret nor, for HTTP, in the URL.
func (r Request) anonymous() bool {
	c := r.Credentials
	if at, err := url.Parse(r.URL); err == nil && at.User != nil && at.Scheme != "ssh" {
		return false
	}
	return c.Username == "" && c.Password == "" && c.BearerToken == "" && len(c.Identity) == 0
}

// The keys of a Secret are named as in Flux.
const (
	keyUsername    = "username"
	keyPassword    = "password"
	keyBearerToken = "bearerToken"
	keyCA          = "ca.crt"
	keyCAFile      = "caFile"
	keyIdentity    = "identity"
	keyKnownHosts  = "known_hosts"
)

// CredentialsFromSecret reads a Secret in the format of Flux's GitRepository: username and password, or bearerToken;
// ca.crt (or caFile); identity, known_hosts and, for an encrypted identity, password. An error is a *SecretError, which
// names the key.
func CredentialsFromSecret(data map[string][]byte) (Credentials, error) {
	c := Credentials{
		Username:    string(data[keyUsername]),
		Password:    string(data[keyPassword]),
		BearerToken: string(data[keyBearerToken]),
		CA:          data[keyCA],
		Identity:    data[keyIdentity],
		KnownHosts:  data[keyKnownHosts],
	}
	if len(c.CA) == 0 {
		c.CA = data[keyCAFile]
	}
	if len(c.Identity) > 0 {
		// In Flux, if there is an identity, password is the password of the identity.
		c.IdentityPassword, c.Username, c.Password = data[keyPassword], "", ""
	}
	if c.BearerToken != "" && c.Password != "" {
		return Credentials{}, &SecretError{Key: keyBearerToken, Reason: "stands beside password: keep one of the two"}
	}
	if len(c.CA) > 0 && !x509.NewCertPool().AppendCertsFromPEM(c.CA) {
		return Credentials{}, &SecretError{Key: keyCA, Reason: "holds no certificate in PEM form"}
	}
	if len(c.Identity) > 0 {
		if _, err := c.signer(); err != nil {
			return Credentials{}, err
		}
	}
	return c, nil
}

// signer parses the identity.
func (c Credentials) signer() (ssh.Signer, error) {
	if len(c.Identity) == 0 {
		return nil, &SecretError{Key: keyIdentity, Reason: "is missing: an ssh URL needs a private key"}
	}
	signer, err := ssh.ParsePrivateKey(c.Identity)
	if err == nil {
		return signer, nil
	}
	var missing *ssh.PassphraseMissingError
	if !errors.As(err, &missing) {
		return nil, &SecretError{Key: keyIdentity, Reason: "is no private key in PEM or OpenSSH form"}
	}
	if len(c.IdentityPassword) == 0 {
		return nil, &SecretError{Key: keyPassword, Reason: "is missing: the identity is encrypted"}
	}
	if signer, err = ssh.ParsePrivateKeyWithPassphrase(c.Identity, c.IdentityPassword); err != nil {
		return nil, &SecretError{Key: keyPassword, Reason: "does not open the identity"}
	}
	return signer, nil
}

// Secrets returns the values that must not appear in any message.
func (c Credentials) Secrets() []string {
	return []string{c.Password, c.BearerToken, string(c.Identity), string(c.IdentityPassword)}
}

// SecretError reports which key of a Secret cannot be used. It never contains a value.
type SecretError struct {
	Key, Reason string
}

// Error names the key and what is wrong with it.
func (e *SecretError) Error() string {
	return fmt.Sprintf("the key %s of the source's secret %s", e.Key, e.Reason)
}

// firstBytes keeps the beginning of a program's output and drops the rest.
type firstBytes struct {
	mu   sync.Mutex
	kept []byte
}

func (f *firstBytes) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if room := maxRefusal - len(f.kept); room > 0 {
		f.kept = append(f.kept, p[:min(room, len(p))]...)
	}
	return len(p), nil
}

// String returns what was kept, on one line.
func (f *firstBytes) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(strings.Fields(string(f.kept)), " ")
}
