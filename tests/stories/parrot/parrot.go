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

// Parrot is a host that runs. It has no TLS, which loopback needs none for.
type Parrot struct {
	server *httptest.Server
	mu     sync.Mutex
	heard  []string
	asked  int
}

// New starts one.
func New() *Parrot {
	p := &Parrot{}
	p.server = httptest.NewServer(p)
	return p
}

// Close ends it.
func (p *Parrot) Close() { p.server.Close() }

// Host is where it is, under a name that is not that of the sandbox's other hosts.
func (p *Parrot) Host() string {
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(p.server.URL, "http://"))
	return "localhost:" + port
}

// Heard are the credentials that it was sent, and Asked how often it was asked anything.
func (p *Parrot) Heard() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.heard...)
}

// Asked is how often it was asked anything.
func (p *Parrot) Asked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// ServeHTTP asks for credentials, and repeats them once it has them.
func (p *Parrot) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	credentials := credentialsOf(r)
	p.mu.Lock()
	p.asked++
	p.heard = append(p.heard, credentials...)
	p.mu.Unlock()
	if len(credentials) == 0 {
		challenge := `Basic realm="parrot"`
		if strings.HasPrefix(r.URL.Path, "/v2/") { // a registry, whose tokens are given elsewhere: a HEAD has no words
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
	// As Git hosts and registries write their errors.
	_ = json.NewEncoder(w).Encode(map[string]any{"message": said, "error": said, "errors": []any{map[string]any{"code": "DENIED", "message": said}}})
}

// credentialsOf are the values in a request that open something.
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
