package parrot

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
)

// Parrot is a running host. It has no TLS, which is not needed on loopback.
type Parrot struct {
	server *httptest.Server
	mu     sync.Mutex
	heard  []string
	asked  int
}

// New starts a parrot.
func New() *Parrot {
	p := &Parrot{}
	p.server = httptest.NewServer(p)
	return p
}

// Close stops it.
func (p *Parrot) Close() { p.server.Close() }

// Host returns its address, with a name that differs from that of the sandbox's other hosts.
func (p *Parrot) Host() string {
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(p.server.URL, "http://"))
	return "localhost:" + port
}

// Heard returns the credentials that it was sent.
func (p *Parrot) Heard() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.heard...)
}

// Asked returns the number of requests that it received.
func (p *Parrot) Asked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// ServeHTTP requires credentials, and repeats them once it has them.
func (p *Parrot) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	credentials := credentialsOf(r)
	p.mu.Lock()
	p.asked++
	p.heard = append(p.heard, credentials...)
	p.mu.Unlock()
	if len(credentials) == 0 {
		challenge := `Basic realm="parrot"`
		if strings.HasPrefix(r.URL.Path, "/v2/") { // a registry, whose tokens come from another endpoint: the response to a HEAD has no body
			challenge = `Bearer realm="http://` + p.Host() + `/token",service="parrot"`
		}
		w.Header().Set("WWW-Authenticate", challenge)
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	var words []string
	for _, credential := range credentials {
		words = append(words, encodings(credential)...)
	}
	said := "polly was sent " + strings.Join(words, " and ")
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	// The error formats of Git hosts and registries.
	_ = json.NewEncoder(w).Encode(map[string]any{"message": said, "error": said, "errors": []any{map[string]any{"code": "DENIED", "message": said}}})
}

// credentialsOf returns the credentials in a request.
func credentialsOf(r *http.Request) []string {
	if user, password, ok := r.BasicAuth(); ok {
		return []string{password, user + ":" + password}
	}
	var found []string
	for _, header := range []string{"Authorization", "Private-Token"} {
		if value := r.Header.Get(header); value != "" {
			_, token, split := strings.Cut(value, " ")
			if !split {
				token = value
			}
			found = append(found, token)
		}
	}
	return found
}

func encodings(secret string) []string {
	text, _ := json.Marshal(secret)
	return []string{
		base64.StdEncoding.EncodeToString([]byte(secret)), base64.RawURLEncoding.EncodeToString([]byte(secret)),
		url.QueryEscape(secret), url.PathEscape(secret), strconv.Quote(secret), string(text), fmt.Sprintf("https://%s@host", url.UserPassword("me", secret)), secret,
	}
}
