// Package gitproxy is a proxy between the daemon and the Git host that injects faults for the daemon only: people push
// to, and look at, the host itself. One Proxy serves the repositories, another the API for commit statuses, so that
// either can fail independently. It records the commit statuses that it forwards.
package gitproxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path"
	"strings"
	"sync"

	"github.com/plumbline-dev/plumbline/tests/sandbox/githost"
)

// Proxy is a proxy for the Git host. Close stops it.
type Proxy struct {
	server *httptest.Server

	mu      sync.Mutex
	code    int
	changed chan struct{} // closed when its answer changes
	posted  map[string][]string
}

// Answers that are not status codes.
const (
	// Up forwards to the Git host.
	Up = -iota
	// Down closes the connection without a response.
	Down
	// Hang does not respond while it is set, then forwards to the Git host.
	Hang
	// Slow forwards to the Git host, at 10 kB a second.
	Slow
)

// New starts a proxy for the host at a URL.
func New(host string) (*Proxy, error) {
	target, err := url.Parse(host)
	if err != nil {
		return nil, fmt.Errorf("read the Git host's URL: %w", err)
	}
	p := &Proxy{posted: map[string][]string{}, changed: make(chan struct{})}
	behind := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	behind.ModifyResponse = p.note
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		code, changed := p.code, p.changed
		p.mu.Unlock()
		switch code {
		case Up:
			behind.ServeHTTP(w, r)
		case Down:
			panic(http.ErrAbortHandler) // closes the connection without a response
		case Hang:
			select {
			case <-changed:
				behind.ServeHTTP(w, r)
			case <-r.Context().Done():
			}
		case Slow:
			behind.ServeHTTP(trickle{w, r, changed}, r)
		case http.StatusTooManyRequests:
			w.Header().Set("Retry-After", "1")
			fallthrough
		default:
			w.WriteHeader(code)
		}
	}))
	return p, nil
}

// URL returns the address of the proxy.
func (p *Proxy) URL() string { return p.server.URL }

// Close stops it.
func (p *Proxy) Close() {
	p.Answer(Down)
	p.server.Close()
}

// Answer sets the answer to each request: a status code, Up, Down, Hang or Slow.
func (p *Proxy) Answer(code int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.code = code
	close(p.changed)
	p.changed = make(chan struct{})
}

// Posted returns the states that the Git host has accepted for a commit as a whole, in order, with repetitions.
func (p *Proxy) Posted(commit string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.posted[commit]...)
}

// note records a status that the Git host has accepted: its response repeats it.
func (p *Proxy) note(res *http.Response) error {
	status := res.Request.Method == http.MethodPost && strings.Contains(res.Request.URL.Path, "/statuses/")
	if !status || res.StatusCode >= http.StatusMultipleChoices {
		return nil
	}
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	res.Body = io.NopCloser(bytes.NewReader(data))
	var posted struct {
		State   string `json:"status"`
		Context string `json:"context"`
	}
	if err := json.Unmarshal(data, &posted); err != nil {
		return fmt.Errorf("read the Git host's answer: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	commit := path.Base(res.Request.URL.Path)
	if len(githost.On("", []githost.Status{{Context: posted.Context}})) > 0 {
		p.posted[commit] = append(p.posted[commit], posted.State)
	}
	return nil
}
