package apiproxy

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/plumbline-dev/plumbline/tests/sandbox"
)

// Proxy is a proxy for the API server of a sandbox.
type Proxy struct {
	// Endpoint is the proxy's URL.
	Endpoint string

	server *http.Server
	next   http.Handler

	mu     sync.Mutex
	fault  Fault
	delay  time.Duration
	healed chan struct{} // closed when the fault ends
	heals  *time.Timer
	open   map[net.Conn]bool
	// watches are those that Expire cuts; expired are the paths whose next watch is answered with 410.
	watches map[*http.Request]context.CancelFunc
	expired map[string]bool
	writes  []string
}

// Start starts a proxy for the API server of a sandbox.
func Start(s *sandbox.Sandbox) (*Proxy, error) {
	target, err := url.Parse(s.Kube.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("read the API server's address: %w", err)
	}
	transport, err := rest.TransportFor(&rest.Config{Host: s.Kube.Endpoint, TLSClientConfig: rest.TLSClientConfig{CAData: s.Kube.CertificateAuthority}})
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	certificate, err := Certificate(s)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the daemon: %w", err)
	}
	p := &Proxy{
		Endpoint: "https://" + listener.Addr().String(), open: map[net.Conn]bool{},
		watches: map[*http.Request]context.CancelFunc{}, expired: map[string]bool{},
		next: &httputil.ReverseProxy{
			Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
			Transport:     transport,
			FlushInterval: -1, // forward the events of a watch immediately
			ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
		},
	}
	p.server = &http.Server{
		Handler: p, ConnState: p.note, ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12},
	}
	// It ends with Close; the daemon reports any other end.
	go func() { _ = p.server.ServeTLS(gate{listener, p}, "", "") }()
	return p, nil
}

// Certificate returns the one that a sandbox's API server serves, on any port.
func Certificate(s *sandbox.Sandbox) (tls.Certificate, error) {
	keys := filepath.Join(s.Dir, "kube", "pki")
	certificate, err := tls.LoadX509KeyPair(filepath.Join(keys, "serving.crt"), filepath.Join(keys, "serving.key"))
	if err != nil {
		return certificate, fmt.Errorf("read the API server's certificate: %w", err)
	}
	return certificate, nil
}

// Close stops the proxy.
func (p *Proxy) Close() error {
	p.Set(None, 0, 0)
	return p.server.Close()
}

// Writes returns the forwarded requests that change anything but a lease, as "PATCH /path".
func (p *Proxy) Writes() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.writes...)
}

// note tracks open connections, so that they can be cut.
func (p *Proxy) note(c net.Conn, state http.ConnState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch state {
	case http.StateNew:
		p.open[c] = true
	case http.StateClosed, http.StateHijacked:
		delete(p.open, c)
	case http.StateActive, http.StateIdle:
	}
}

// ServeHTTP forwards a request, or applies the fault to it.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r, done, gone := p.begin(r)
	defer done()
	if gone {
		answer(w, http.StatusGone, "Expired", "too old resource version")
		return
	}
	if !p.afflict(w, r) {
		return
	}
	p.next.ServeHTTP(w, r)
}

// begin counts a request; gone reports whether to answer a watch with 410.
func (p *Proxy) begin(r *http.Request) (_ *http.Request, done func(), gone bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	query := r.URL.Query()
	if query.Get("watch") == "" {
		if r.Method != http.MethodGet && !strings.Contains(r.URL.Path, "/leases") {
			p.writes = append(p.writes, r.Method+" "+r.URL.Path)
		}
		return r, func() {}, false
	}
	if query.Get("sendInitialEvents") == "" && p.expired[r.URL.Path] {
		delete(p.expired, r.URL.Path)
		return r, func() {}, true
	}
	ctx, cancel := context.WithCancel(r.Context())
	r = r.WithContext(ctx)
	p.watches[r] = cancel
	return r, func() {
		cancel()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.watches, r)
	}, false
}
