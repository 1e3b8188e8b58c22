// Package gitproxy stands between the daemon and the Git host, and lets the host go
// wrong for the daemon alone: people push, and look, at the host itself. One Proxy is
// the way to the repositories, another the way to the API for commit statuses, so
// that either can go wrong without the other. What it passes on of commit statuses it
// notes.
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

// Proxy is a way to the Git host. Close ends it.
type Proxy struct {
	server *httptest.Server

	mu      sync.Mutex
	code    int
	changed chan struct{} // closed when it answers otherwise
	posted  map[string][]string
}

// Answers that are no code.
const (
	// Up is the Git host's own.
	Up = -iota
	// Down is none: the connection ends.
	Down
	// Hang is none, for as long as it stands; then it is the Git host's.
	Hang
	// Slow is the Git host's own, at 10 kB a second.
	Slow
)

// New puts a proxy before the host at a URL.
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
			panic(http.ErrAbortHandler) // the connection ends without an answer
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

// URL is where the proxy listens.
func (p *Proxy) URL() string { return p.server.URL }

// Close ends it.
func (p *Proxy) Close() {
	p.Answer(Down)
	p.server.Close()
}

// Answer has each request answered with a code, Up, Down, Hang or Slow.
func (p *Proxy) Answer(code int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.code = code
	close(p.changed)
	p.changed = make(chan struct{})
}

// Posted are the states that the Git host has taken for a commit as a whole, each time it
// did, in order.
func (p *Proxy) Posted(commit string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.posted[commit]...)
}

// note notes a status that the Git host has taken: its answer repeats it.
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
