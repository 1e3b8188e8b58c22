package charts

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	corev1 "k8s.io/api/core/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"

	"github.com/plumbline-dev/plumbline/internal/trust"
)

// contentType of a chart's archive: https://helm.sh/docs/topics/registries/#helm-chart-manifest
const contentType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"

// userAgent identifies plumbline to servers.
const userAgent = "plumbline"

// Registries are not trusted. Karpenter's charts are far below these sizes, in bytes.
const (
	maxManifest = 1 << 20
	maxArchive  = 16 << 20
)

// registry is an OCI registry.
type registry struct {
	ref     Ref
	session *session
}

// pull downloads a chart by its manifest's digest if that is known, otherwise by the version's tag.
func (o *registry) pull(ctx context.Context, chart string, known digest.Digest) (artifact, []byte, error) {
	repository, err := o.repository(chart)
	if err != nil {
		return artifact{}, nil, err
	}
	found, archive, err := fetch(ctx, repository, Label(o.ref.Version), known)
	if err != nil {
		err = classify(o.ref, chart, o.session, err)
		if missing := (*NotFoundError)(nil); errors.As(err, &missing) && known == "" {
			missing.Near = near(ctx, repository, o.ref.Version)
		}
		return artifact{}, nil, err
	}
	return found, archive, nil
}

func (o *registry) repository(chart string) (*remote.Repository, error) {
	name, plain := o.ref.registry(chart)
	repository, err := remote.NewRepository(name)
	if err != nil {
		return nil, &InvalidRefError{Ref: o.ref, Reason: fmt.Sprintf("repository %q: %v", o.ref.Repository, err)}
	}
	o.session.home = repository.Reference.Host()
	client := &auth.Client{Client: o.session.client(), Cache: auth.NewCache(), ClientID: "plumbline"}
	client.SetUserAgent(userAgent)
	client.Credential = func(ctx context.Context, host string) (auth.Credential, error) {
		d, err := o.session.access(ctx, host)
		if err != nil || d.credentials.anonymous() {
			return auth.EmptyCredential, err
		}
		return auth.Credential{Username: d.credentials.Username, Password: d.credentials.Password}, nil
	}
	repository.PlainHTTP, repository.Client = plain, client
	return repository, nil
}

// fetch follows the tag or digest to the manifest and the archive. It checks the content of each step against its
// digest.
func fetch(ctx context.Context, repository *remote.Repository, tag string, known digest.Digest) (artifact, []byte, error) {
	reference := tag
	if known != "" {
		reference = known.String()
	}
	head, err := repository.Resolve(ctx, reference)
	if err != nil {
		return artifact{}, nil, err
	}
	if head.Size > maxManifest {
		return artifact{}, nil, fmt.Errorf("its manifest has %d bytes: %w", head.Size, errdef.ErrSizeExceedsLimit)
	}
	raw, err := content.FetchAll(ctx, repository, head)
	if err != nil {
		return artifact{}, nil, err
	}
	var manifest ocispec.Manifest
	if err := json.Unmarshal(raw, &manifest); err != nil {
		return artifact{}, nil, fmt.Errorf("read its manifest: %w", err)
	}
	for _, layer := range manifest.Layers {
		if layer.MediaType != contentType {
			continue
		}
		if layer.Size > maxArchive {
			return artifact{}, nil, fmt.Errorf("its archive has %d bytes: %w", layer.Size, errdef.ErrSizeExceedsLimit)
		}
		archive, err := content.FetchAll(ctx, repository.Blobs(), layer)
		return artifact{Manifest: head.Digest, Content: layer.Digest}, archive, err
	}
	return artifact{}, nil, fmt.Errorf("its manifest names no Helm chart: %w", errdef.ErrInvalidMediaType)
}

// maxRedirects limits how often one request is redirected.
const maxRedirects = 5

// session sends the requests of one Resolve. It trusts each host's CA only for that host, and sends its credentials to
// no other host: redirects are followed without credentials, and a token service on another host gets none unless the
// NodeSync names that host as well.
type session struct {
	base *http.Transport
	keys Keys
	// home is the host of the repository.
	home string
	// basic sends credentials with the first request to a host. Registries request them.
	basic bool

	mu    sync.Mutex
	hosts map[string]*hostAccess
}

// hostAccess is how requests are sent to one host.
type hostAccess struct {
	credentials Credentials
	transport   *http.Transport
	// own reports whether only this host uses the transport.
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

// first returns the request that was redirected to this one.
func first(r *http.Request) *http.Request {
	for r.Response != nil && r.Response.Request != nil {
		r = r.Response.Request
	}
	return r
}

// access returns how requests are sent to a host. It reads the host's keys once.
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

// authorities returns the system's CAs together with those of a PEM bundle.
func authorities(bundle []byte) (*x509.CertPool, error) {
	pool, found := trust.With(bundle)
	if !found {
		return nil, &SecretError{Key: keyCA, Reason: "holds no certificate in PEM form"}
	}
	return pool, nil
}

// keysError reports that the keys of a host are unavailable. It carries the error of Keys through the HTTP client.
type keysError struct{ err error }

func (e *keysError) Error() string { return e.err.Error() }
func (e *keysError) Unwrap() error { return e.err }

// tokenHostError reports that a registry gets its tokens from another host.
type tokenHostError struct{ host, home string }

func (e *tokenHostError) Error() string {
	return fmt.Sprintf("%s asks for its credentials to be sent to %s, which they are not for: if that is intended, name %s under spec.charts.registries, with the same secret", e.home, e.host, e.host)
}

// secrets returns the values that no message may contain.
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

// originOf returns where a host's credentials were read from; empty if it has none.
func (s *session) originOf(host string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d, ok := s.hosts[host]; ok && !d.credentials.anonymous() {
		return d.credentials.Origin
	}
	return ""
}

// untrusted reports whether an error is about a certificate that is not trusted.
func untrusted(err error) bool {
	var verification *tls.CertificateVerificationError
	return errors.As(err, &verification)
}

// Access is how repositories are accessed. The zero value can access public ones.
type Access struct {
	// Keys return credentials for hosts. It is called right before a request to a host, so never for cached charts. If
	// nil, all requests are anonymous.
	Keys Keys
	// Files are the checkout, for a repository that is a path.
	Files fs.FS
}

// Keys return the credentials for a host, named as in its URL, with its port if it has one.
type Keys func(ctx context.Context, host string) (Credentials, error)

// Credentials are for one host, and are sent to no other. The zero value is anonymous.
type Credentials struct {
	Username, Password string
	// CA is a PEM bundle that is trusted in addition to the system's.
	CA []byte
	// Origin names in messages where they were read from: "secret mirror".
	Origin string
}

// same reports whether both are for the same account.
func (c Credentials) same(other Credentials) bool {
	return c.Username == other.Username && c.Password == other.Password
}

func (c Credentials) anonymous() bool { return c.Username == "" && c.Password == "" }

// The keys of a Secret, named as in Flux.
const (
	keyUsername = "username"
	keyPassword = "password"
	keyCA       = "ca.crt"
)

// CredentialsFromSecret returns a Secret's user and password for a host: from kubernetes.io/dockerconfigjson, or from
// the keys username and password. Its error is a *SecretError, which names the key.
func CredentialsFromSecret(ctx context.Context, data map[string][]byte, host string) (Credentials, error) {
	if config, ok := data[corev1.DockerConfigJsonKey]; ok {
		return fromDockerConfig(ctx, config, host)
	}
	for _, key := range []string{keyUsername, keyPassword} {
		if len(data[key]) == 0 {
			return Credentials{}, &SecretError{Key: key, Reason: "is missing: it takes username and password, or " + corev1.DockerConfigJsonKey}
		}
	}
	// A line break at the end of a file is not part of the password.
	password := strings.TrimRight(string(data[keyPassword]), "\r\n")
	return Credentials{Username: strings.TrimSpace(string(data[keyUsername])), Password: password}, nil
}

func fromDockerConfig(ctx context.Context, config []byte, host string) (Credentials, error) {
	fail := func(format string, args ...any) (Credentials, error) {
		return Credentials{}, &SecretError{Key: corev1.DockerConfigJsonKey, Reason: fmt.Sprintf(format, args...)}
	}
	store, err := credentials.NewMemoryStoreFromDockerConfig(config)
	if err != nil { // the error may contain the secret
		return fail("is not a Docker configuration in JSON")
	}
	found, err := store.Get(ctx, host)
	if err != nil {
		return fail("cannot be read for %s", host)
	}
	if found.Username == "" || found.Password == "" {
		return fail("has no user and password for %s", host)
	}
	return Credentials{Username: found.Username, Password: found.Password}, nil
}

// AuthoritiesFromSecret returns a Secret's ca.crt, a PEM bundle.
func AuthoritiesFromSecret(data map[string][]byte) ([]byte, error) {
	if _, err := authorities(data[keyCA]); err != nil {
		return nil, err
	}
	return data[keyCA], nil
}

// SecretError reports which key of a Secret cannot be used. It never contains a value.
type SecretError struct {
	Key, Reason string
}

// Error names the key and what is wrong with it.
func (e *SecretError) Error() string { return fmt.Sprintf("the key %s %s", e.Key, e.Reason) }
