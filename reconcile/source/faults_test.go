package source_test

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/source"
)

func TestFetchCredentials(t *testing.T) {
	h := newHost(t)
	h.commit(t, "main", files{"a.yaml": "a"})
	inURL := strings.Replace(h.url, "://", "://plumbline:s3cret%2Fwith+signs@", 1)
	cases := map[string]struct {
		url         string
		credentials source.Credentials
		allowed     bool
	}{
		"basic":         {h.url, source.Credentials{Username: user, Password: password}, true},
		"bearer":        {h.url, source.Credentials{BearerToken: password}, true},
		"in the url":    {inURL, source.Credentials{}, true},
		"nobody":        {h.url, source.Credentials{}, false},
		"wrong":         {h.url, source.Credentials{Username: user, Password: "wr0ng-" + password}, false},
		"wrong bearer":  {h.url, source.Credentials{BearerToken: "wr0ng-" + password}, false},
		"wrong in url":  {strings.Replace(inURL, "s3cret", "wr0ng", 1), source.Credentials{}, false},
		"wrong in both": {inURL, source.Credentials{BearerToken: "wr0ng-" + password}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			client := newClient(t, c.url, source.Options{})
			client.request.Credentials = c.credentials
			_, err := client.fetch(t, v1alpha1.GitRef{})
			if c.allowed {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if !as[*source.AuthError](err) {
				t.Fatalf("error %v, want an AuthError", err)
			}
			if says := strings.Contains(err.Error(), "in spec.source.git.secretRef"); says != (name == "nobody") {
				t.Errorf("says that a Secret is to be named: %t: %v", says, err)
			}
			for _, secret := range []string{"wr0ng", "s3cret", "with+signs"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("the message holds a secret: %v", err)
				}
			}
		})
	}
}

func TestFetchTrust(t *testing.T) {
	h := newRepository(t)
	h.commit(t, "main", files{"a.yaml": "a"})
	h.server = httptest.NewUnstartedServer(h)
	h.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	h.server.StartTLS()
	t.Cleanup(h.server.Close)
	c := newClient(t, h.server.URL+"/fleet.git", source.Options{})
	if _, err := c.fetch(t, v1alpha1.GitRef{}); !as[*source.CertificateError](err) {
		t.Fatalf("error %v, want a CertificateError", err)
	}
	c.request.Credentials.CA = strangersAuthority(t)
	if _, err := c.fetch(t, v1alpha1.GitRef{}); !as[*source.CertificateError](err) {
		t.Fatalf("with a stranger's authority: error %v, want a CertificateError", err)
	}
	c.request.Credentials.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.server.Certificate().Raw})
	c.mustFetch(t, v1alpha1.GitRef{})
}

func strangersAuthority(t *testing.T) []byte {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true}
	key := newPrivateKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestFetchFromAHostThatIsDown(t *testing.T) {
	h := newHost(t)
	h.commit(t, "main", files{"a.yaml": "a"})
	c := newClient(t, h.url, source.Options{})
	h.server.Close()
	var away *source.UnreachableError
	_, err := c.fetch(t, v1alpha1.GitRef{})
	if !errors.As(err, &away) || away.Timeout {
		t.Fatalf("error %v, want an UnreachableError", err)
	}
	if _, again := c.fetch(t, v1alpha1.GitRef{}); again.Error() != err.Error() {
		t.Errorf("the message changes from %q to %q", err, again)
	}
}

func TestFetchNeedsItsDisk(t *testing.T) {
	h := newHost(t)
	h.commit(t, "main", files{"a.yaml": "a"})
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := newClient(t, h.url, source.Options{})
	c.git = source.NewGit(source.Options{Dir: file})
	if _, err := c.fetch(t, v1alpha1.GitRef{}); !as[*source.StoreError](err) {
		t.Fatalf("error %v, want a StoreError", err)
	}
}

// A fetch from a host that accepts the connection and sends nothing times out and leaks no goroutine.
func TestFetchFromAHostThatHangs(t *testing.T) {
	hang := listen(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	hostKey, _ := newKey(t)
	_, plain := newKey(t)
	addr := hang.Addr().String()
	for name, url := range map[string]string{"http": "http://" + addr + "/x.git", "ssh": "ssh://git@" + addr + "/x.git"} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, url, source.Options{Timeout: 100 * time.Millisecond})
			c.request.Credentials = source.Credentials{Identity: plain, KnownHosts: knownHosts(addr, hostKey)}
			before := runtime.NumGoroutine()
			for range 5 {
				var away *source.UnreachableError
				if _, err := c.fetch(t, v1alpha1.GitRef{}); !errors.As(err, &away) || !away.Timeout {
					t.Fatalf("error %v, want a timeout", err)
				}
			}
			wait(t, "goroutines are left behind", func() bool { return runtime.NumGoroutine() <= before+2 })
		})
	}
}

// A pack that trickles or breaks off leaves nothing behind, and the next fetch is complete.
func TestFetchOfAPackThatBreaksOff(t *testing.T) {
	h := newHost(t)
	commit := h.commit(t, "main", files{"a.yaml": strings.Repeat("a", 100), "b.yaml": "b"})
	inner := h.handler
	cases := map[string]func(http.ResponseWriter, []byte, *http.Request){
		"cut off": func(w http.ResponseWriter, body []byte, _ *http.Request) {
			_, _ = w.Write(body[:len(body)/2])
			panic(http.ErrAbortHandler)
		},
		"trickles": func(w http.ResponseWriter, body []byte, r *http.Request) {
			_, _ = w.Write(body[:len(body)/2])
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
		"no pack at all": func(w http.ResponseWriter, _ []byte, _ *http.Request) { _, _ = io.WriteString(w, "0008NAK\n") },
		"another pack": func(w http.ResponseWriter, body []byte, _ *http.Request) {
			_, _ = w.Write([]byte(strings.Replace(string(body), "PACK", "JUNK", 1)))
		},
	}
	for name, breaks := range cases {
		t.Run(name, func(t *testing.T) {
			h.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPost {
					inner.ServeHTTP(w, r)
					return
				}
				answer := httptest.NewRecorder()
				inner.ServeHTTP(answer, r)
				breaks(w, answer.Body.Bytes(), r)
			})
			c := newClient(t, h.url, source.Options{Timeout: 2 * time.Second})
			if s, err := c.fetch(t, v1alpha1.GitRef{}); !as[*source.UnreachableError](err) {
				t.Fatalf("snapshot %v, error %v, want an UnreachableError", s, err)
			}
			h.handler = inner
			wantContent(t, c.mustFetch(t, v1alpha1.GitRef{}), commit, map[string]string{"a.yaml": strings.Repeat("a", 100), "b.yaml": "b"})
			wantOneStore(t, c)
		})
	}
}

func TestFetchEndsWithItsContext(t *testing.T) {
	h := newHost(t)
	c := newClient(t, h.url, source.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := c.git.Fetch(ctx, c.request); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want the context's", err)
	}
}

func TestFetchRefusesURLs(t *testing.T) {
	for _, url := range []string{"", "file:///etc", "/etc", "git@example.com:acme/fleet", "ext::sh -c id", "ftp://u:" + password + "@example.com/x", "https://"} {
		if _, err := newClient(t, url, source.Options{}).fetch(t, v1alpha1.GitRef{}); !as[*source.URLError](err) {
			t.Errorf("%q: error %v, want a URLError", url, err)
		}
	}
}

// wait waits for a condition.
func wait(t *testing.T, otherwise string, done func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for !done() {
		select {
		case <-deadline:
			t.Fatal(otherwise)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
