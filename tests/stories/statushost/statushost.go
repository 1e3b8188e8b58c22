// Package statushost stands between the daemon and the Git host's API for commit
// statuses, and lets it go wrong. What it passes on it notes.
//
// Clones and fetches do not go through it.
package statushost

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
	"sync"
)

// Host is the proxy. Close ends it.
type Host struct {
	server *httptest.Server

	mu     sync.Mutex
	code   int
	posted map[string][]string
}

// Up and Down are answers that are no code: the Git host's own, and none at all.
const (
	Up   = 0
	Down = -1
)

// New puts a proxy before the host at a URL.
func New(host string) (*Host, error) {
	target, err := url.Parse(host)
	if err != nil {
		return nil, fmt.Errorf("read the Git host's URL: %w", err)
	}
	h := &Host{posted: map[string][]string{}}
	behind := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	behind.ModifyResponse = h.note
	h.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		code := h.code
		h.mu.Unlock()
		switch code {
		case Up:
			behind.ServeHTTP(w, r)
		case Down:
			panic(http.ErrAbortHandler) // the connection ends without an answer
		default:
			w.WriteHeader(code)
		}
	}))
	return h, nil
}

// URL is where the proxy listens.
func (h *Host) URL() string { return h.server.URL }

// Close ends it.
func (h *Host) Close() { h.server.Close() }

// Answer has each request answered with a code, Up or Down.
func (h *Host) Answer(code int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.code = code
}

// Posted are the states that the Git host has taken for a commit, each time it
// did, in order.
func (h *Host) Posted(commit string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.posted[commit]...)
}

// note notes a status that the Git host has taken: its answer repeats it.
func (h *Host) note(res *http.Response) error {
	if res.Request.Method != http.MethodPost || res.StatusCode >= http.StatusMultipleChoices {
		return nil
	}
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	res.Body = io.NopCloser(bytes.NewReader(data))
	var status struct {
		State string `json:"status"`
	}
	if err := json.Unmarshal(data, &status); err != nil {
		return fmt.Errorf("read the Git host's answer: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	commit := path.Base(res.Request.URL.Path)
	h.posted[commit] = append(h.posted[commit], status.State)
	return nil
}
