package charts

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// TestNoRepositoryLeadsToThisMachine: neither an index nor a redirect of a host on the network makes the daemon send
// requests to its own loopback addresses.
func TestNoRepositoryLeadsToThisMachine(t *testing.T) {
	var asked atomic.Int32
	own := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(own.Close)
	index := "entries:\n" + "  karpenter-crd:\n  - {name: karpenter-crd, version: 1.14.1, urls: [\"" + own.URL + "/admin\"]}\n"
	for name, answer := range map[string]http.HandlerFunc{
		"an index":   func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(index)) },
		"a redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, own.URL+"/admin", http.StatusFound) },
	} {
		t.Run(name, func(t *testing.T) {
			repository := httptest.NewTLSServer(answer) // its certificate is for example.com
			t.Cleanup(repository.Close)
			transport := repository.Client().Transport.(*http.Transport).Clone()
			transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				if strings.HasPrefix(address, "example.com:") {
					address = repository.Listener.Addr().String()
				}
				return (&net.Dialer{}).DialContext(ctx, network, address)
			}
			transport.TLSClientConfig.MinVersion = tls.VersionTLS12
			_, err := NewStore(StoreOptions{Dir: t.TempDir(), Transport: transport}).Resolve(t.Context(), Ref{Repository: "https://example.com/charts", Version: "1.14.1"}, Access{})
			if err == nil || !strings.Contains(err.Error(), "example.com leads to "+strings.TrimPrefix(own.URL, "http://")) {
				t.Errorf("Resolve() = %v, want an error that names both hosts", err)
			}
			if n := asked.Load(); n > 0 {
				t.Errorf("what listens on loopback was asked %d times", n)
			}
		})
	}
}
