package report_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"
)

// internet acts as every host that is not on loopback: it is the proxy in the environment, and responds itself, over
// TLS with one certificate for all hosts.
var internet struct {
	mu     sync.Mutex
	answer http.Handler
	tls    *httptest.Server
	ca     []byte
}

func TestMain(m *testing.M) {
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		internet.mu.Lock()
		handler := internet.answer
		internet.mu.Unlock()
		handler.ServeHTTP(w, r)
	})
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect {
			tunnel(w)
			return
		}
		answer(w, r)
	}))
	internet.tls = httptest.NewUnstartedServer(answer)
	internet.tls.TLS = &tls.Config{Certificates: []tls.Certificate{authority()}}
	internet.tls.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that do not trust it
	internet.tls.StartTLS()
	for name, value := range map[string]string{"HTTP_PROXY": proxy.URL, "HTTPS_PROXY": proxy.URL, "NO_PROXY": ""} {
		if err := os.Setenv(name, value); err != nil {
			log.Fatal(err)
		}
	}
	os.Exit(m.Run())
}

// tunnel connects a CONNECT request to the server with the certificate.
func tunnel(w http.ResponseWriter) {
	there, err := net.Dial("tcp", internet.tls.Listener.Addr().String())
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	here, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = there.Close()
		return
	}
	_, _ = io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
	for _, way := range [][2]net.Conn{{here, there}, {there, here}} {
		go func() {
			_, _ = io.Copy(way[0], way[1])
			_ = way[0].Close()
		}()
	}
}

// authority signs for all hosts of the tests.
func authority() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		log.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		DNSNames: []string{"*.example.com", "github.com", "api.github.com", "gitlab.com", "api.bitbucket.org", "dev.azure.com"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		log.Fatal(err)
	}
	internet.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// call is a request to a host.
type call struct {
	// URL has no scheme.
	Method, URL string
	Header      http.Header
	Raw         []byte
	Body        map[string]any
}

// hosts sets the response of the internet, and records requests except those for tokens, of which GitHub issues one.
func hosts(t *testing.T, answer func(http.ResponseWriter, *http.Request)) *[]call {
	t.Helper()
	sent := &[]call{}
	internet.mu.Lock()
	defer internet.mu.Unlock()
	internet.answer = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/app/installations/7/access_tokens" {
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, `{"token": "`+installationToken+`", "expires_at": "2099-01-01T00:00:00Z", "permissions": {"statuses": "write"}}`)
			return
		}
		c := call{Method: r.Method, URL: r.Host + r.URL.EscapedPath(), Header: r.Header}
		if r.URL.RawQuery != "" {
			c.URL += "?" + r.URL.RawQuery
		}
		c.Raw, _ = io.ReadAll(r.Body)
		if err := json.Unmarshal(c.Raw, &c.Body); err != nil && r.Method != http.MethodGet {
			t.Errorf("body %q: %v", c.Raw, err)
		}
		internet.mu.Lock()
		*sent = append(*sent, c)
		internet.mu.Unlock()
		answer(w, r)
	})
	return sent
}
