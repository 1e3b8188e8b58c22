package page

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
)

// bed is a page over a World, with a fixed clock.
type bed struct {
	http.Handler

	mu    sync.Mutex
	now   time.Time
	reads atomic.Int32
	// renders counts rendered pages.
	renders atomic.Int32
}

func (b *bed) clock() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

func (b *bed) pass(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = b.now.Add(d)
}

// newBed returns one for a replica that is the leader, or not.
func newBed(t *testing.T, w *World, leads bool, read func() error) *bed {
	t.Helper()
	b := &bed{now: noon}
	elected := make(chan struct{})
	if leads {
		close(elected)
	}
	writer, err := newWriter("fleet", "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	h := &handler{writer: writer, Options: Options{
		Cluster: Cluster{Namespace: "fleet"}, Elected: elected, Leader: func() string { return "plumbline-7f-x2_0a-1b" }, Port: "8090",
		Host: "nodes.example.com", Logger: logr.Discard(),
	}}
	h.cache = newCache(b.clock, func(context.Context) (*World, error) {
		b.reads.Add(1)
		if read != nil {
			if err := read(); err != nil {
				return nil, err
			}
		}
		shown := *w
		shown.Now = b.clock()
		return &shown, nil
	}, func(w *World, q query) (written, error) {
		b.renders.Add(1)
		return writer.page(w, q)
	})
	b.Handler = h.routes()
	return b
}

func (b *bed) ask(method, target string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	r.Host = "localhost:8090"
	for _, each := range change {
		each(r)
	}
	w := httptest.NewRecorder()
	b.ServeHTTP(w, r)
	return w
}

func TestAnswers(t *testing.T) {
	b := newBed(t, worldOf(nodeSyncWith("prod")), true, nil)
	for name, c := range map[string]struct {
		method, target, host string
		status               int
		says                 string
	}{
		"overview":           {http.MethodGet, "/", "", 200, `href="/nodesyncs/prod"`},
		"one":                {http.MethodGet, "/nodesyncs/prod", "", 200, "<h1>prod "},
		"with a query":       {http.MethodGet, "/nodesyncs/prod?all=1&x=%ff&pool=%3Cb%3E", "", 200, "<h1>prod "},
		"no refresh":         {http.MethodGet, "/?refresh=off", "", 200, "refresh every 10 s"},
		"none of that name":  {http.MethodGet, "/nodesyncs/%3Cscript%3E", "", 404, "No NodeSync &lt;script&gt;"},
		"another path":       {http.MethodGet, "/metrics", "", 404, ""},
		"below":              {http.MethodGet, "/nodesyncs/prod/x", "", 404, ""},
		"up":                 {http.MethodGet, "/nodesyncs/../x", "", 307, ""},
		"POST":               {http.MethodPost, "/", "", 405, ""},
		"DELETE":             {http.MethodDelete, "/nodesyncs/prod", "", 405, ""},
		"OPTIONS":            {http.MethodOptions, "/", "", 405, ""},
		"by address":         {http.MethodGet, "/", "127.0.0.1:1", 200, ""},
		"by IPv6":            {http.MethodGet, "/", "[::1]:8090", 200, ""},
		"by its URL":         {http.MethodGet, "/", "nodes.example.com", 200, ""},
		"by another's name":  {http.MethodGet, "/", "rebound.example.net", 421, ""},
		"by its Pod's":       {http.MethodGet, "/", "10.0.0.1:8090", 421, ""},
		"by a name like it":  {http.MethodGet, "/", "localhost.example.net", 421, ""},
		"without one":        {http.MethodGet, "/", "-", 421, ""},
		"POST by another":    {http.MethodPost, "/", "rebound.example.net", 421, ""},
		"HEAD of the others": {http.MethodHead, "/nodesyncs/prod", "", 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b.pass(time.Minute)
			w := b.ask(c.method, c.target, func(r *http.Request) {
				if c.host != "" {
					r.Host = strings.TrimPrefix(c.host, "-")
				}
			})
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
				t.Errorf("answer %d:\n%s", w.Code, w.Body)
			}
			for key, want := range map[string]string{
				"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store", "X-Frame-Options": "DENY",
				"Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin", "Set-Cookie": "",
			} {
				if got := w.Header().Get(key); got != want {
					t.Errorf("%s: %q, want %q", key, got, want)
				}
			}
			policy := w.Header().Get("Content-Security-Policy")
			for _, rule := range []string{"default-src 'none'; ", "style-src 'sha256-", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"} {
				if !strings.Contains(policy, rule) {
					t.Errorf("the policy %q lacks %q", policy, rule)
				}
			}
			if c.status == 405 && !strings.Contains(w.Header().Get("Allow"), "GET") {
				t.Errorf("allowed: %q", w.Header().Get("Allow"))
			}
		})
	}
}

// TestOneRenderForAll: concurrent requests share one render, and so do requests within a second.
func TestOneRenderForAll(t *testing.T) {
	b := newBed(t, worldOf(nodeSyncWith("prod")), true, nil)
	var group sync.WaitGroup
	for range 100 {
		group.Go(func() {
			if w := b.ask(http.MethodGet, "/nodesyncs/prod"); w.Code != http.StatusOK {
				t.Errorf("answer %d", w.Code)
			}
		})
	}
	group.Wait()
	if n := b.reads.Load(); n != 1 {
		t.Errorf("read %d times", n)
	}
	b.pass(cacheFor - time.Millisecond)
	b.ask(http.MethodGet, "/nodesyncs/prod")
	b.ask(http.MethodGet, "/")
	if n := b.reads.Load(); n != 1 {
		t.Errorf("read %d times within a second", n)
	}
	b.pass(time.Millisecond)
	if b.ask(http.MethodGet, "/nodesyncs/prod"); b.reads.Load() != 2 {
		t.Errorf("read %d times after a second, want 2", b.reads.Load())
	}
}

// TestTooManyDifferentPages: their rate is limited, and so is the cache.
func TestTooManyDifferentPages(t *testing.T) {
	b := newBed(t, worldOf(nodeSyncWith("prod")), true, nil)
	codes := map[int]int{}
	for i := range 200 {
		w := b.ask(http.MethodGet, fmt.Sprintf("/nodesyncs/no-%d", i))
		codes[w.Code]++
		if w.Code == http.StatusTooManyRequests && w.Header().Get("Retry-After") != "1" {
			t.Errorf("Retry-After %q", w.Header().Get("Retry-After"))
		}
	}
	if codes[404] != rendersBurst || codes[429] != 200-rendersBurst {
		t.Errorf("answers %v", codes)
	}
	b.pass(time.Second)
	if w := b.ask(http.MethodGet, "/"); w.Code != http.StatusOK {
		t.Errorf("after a second: %d", w.Code)
	}
}

// TestAReplicaThatDoesNotLead names the leader, and reads nothing.
func TestAReplicaThatDoesNotLead(t *testing.T) {
	b := newBed(t, worldOf(nodeSyncWith("prod")), false, nil)
	w := b.ask(http.MethodGet, "/nodesyncs/prod")
	if w.Code != 503 || !strings.Contains(w.Body.String(), "kubectl port-forward -n fleet pod/plumbline-7f-x2 8090") || !strings.Contains(w.Body.String(), `http-equiv="refresh"`) || b.reads.Load() != 0 {
		t.Errorf("answer %d, %d reads:\n%s", w.Code, b.reads.Load(), w.Body)
	}
}

func TestCachesThatCannotBeRead(t *testing.T) {
	for want, err := range map[string]error{"The watch caches are filling.": fmt.Errorf("read: %w", context.DeadlineExceeded), "see the daemon": errors.New("the secret words")} {
		b := newBed(t, worldOf(nodeSyncWith("prod")), true, func() error { return err })
		w := b.ask(http.MethodGet, "/")
		if w.Code != 503 || !strings.Contains(w.Body.String(), want) || strings.Contains(w.Body.String(), "secret words") {
			t.Errorf("answer %d:\n%s", w.Code, w.Body)
		}
	}
}

func TestAddresses(t *testing.T) {
	for address, good := range map[string]bool{"localhost:8090": true, "127.0.0.1:8090": true, "[::1]:8090": true, ":8090": false, "0.0.0.0:8090": false, "10.0.0.1:8090": false, "8090": false, "localhost": false, "localhost:": false, "": false} {
		if err := CheckAddress(address); (err == nil) != good {
			t.Errorf("%q: %v", address, err)
		}
	}
	for address, good := range map[string]bool{"": true, "https://nodes.example.com": true, "http://localhost:8090/": true, "https://a/b/": true, "nodes.example.com": false, "https://": false, "javascript:alert(1)": false, "https://u:p@a": false, "https://a?x=y": false, "https://a#x": false} {
		if _, err := CheckURL(address); (err == nil) != good {
			t.Errorf("%q: %v", address, err)
		}
	}
}
