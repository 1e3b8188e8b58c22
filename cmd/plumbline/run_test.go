package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/pflag"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/plumbline-dev/plumbline/reconcile/grant"
)

// TestSecretsForAnyHostAreAskedFor: without the flag, a Secret that names no host is not sent to any.
func TestSecretsForAnyHostAreAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		sent bool
	}{
		"by default":    {nil, false},
		"with the flag": {[]string{"--secrets-for-any-host"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			o := &runOptions{}
			flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
			o.bind(flags)
			if err := flags.Parse(c.args); err != nil {
				t.Fatal(err)
			}
			secret := &metav1.ObjectMeta{Namespace: "plumbline-system", Name: "token"}
			err := o.grants().Check(secret, grant.Use{NodeSync: "prod", Address: "https://git.example.com"})
			if (err == nil) != c.sent {
				t.Errorf("it is sent: %v", err)
			}
		})
	}
}

func TestMemoryIsGivenBackAtRest(t *testing.T) {
	const most = 10 * idleAllocation
	for name, c := range map[string]struct {
		before, now usage
		want        bool
	}{
		"at rest, with much garbage":      {usage{allocated: most}, usage{allocated: most + 1, garbage: most}, true},
		"at rest, with much kept":         {usage{allocated: most}, usage{allocated: most, free: most}, true},
		"at rest, with little of either":  {usage{allocated: most}, usage{allocated: most, garbage: minReleasable / 2, free: minReleasable / 2}, false},
		"at work":                         {usage{allocated: most}, usage{allocated: 2 * most, garbage: most, free: most}, false},
		"at the first look, just started": {usage{}, usage{allocated: most, garbage: most}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := &releaser{before: c.before}
			if got := r.worthwhile(c.now); got != c.want {
				t.Errorf("worthwhile = %t, want %t", got, c.want)
			}
			if r.before != c.now {
				t.Errorf("compares with %+v next time", r.before)
			}
		})
	}
}

// collected returns the current GC percentage.
func collected() int {
	now := debug.SetGCPercent(100)
	debug.SetGCPercent(now)
	return now
}

func TestTheEnvironmentSaysHowOftenIsCollected(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	t.Setenv("GOGC", "100")
	collect(startupGCPercent)
	if got := collected(); got != 100 {
		t.Errorf("with GOGC=100 it is collected at %d %%", got)
	}
	t.Setenv("GOGC", "")
	collect(startupGCPercent)
	if got := collected(); got != startupGCPercent {
		t.Errorf("it is collected at %d %%, want %d", got, startupGCPercent)
	}
}

// TestCollectedOftenUntilTheFirstRest: a replica that does not lead still has its first reconciles ahead.
func TestCollectedOftenUntilTheFirstRest(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(startupGCPercent))
	t.Setenv("GOGC", "")
	elected := make(chan struct{})
	r := &releaser{elected: elected}
	r.settle()
	if got := collected(); got != startupGCPercent {
		t.Errorf("at rest without the lease it is collected at %d %%, want %d", got, startupGCPercent)
	}
	close(elected)
	r.settle()
	if got := collected(); got != gcPercent {
		t.Errorf("at rest it is collected at %d %%, want %d", got, gcPercent)
	}
}

// TestMeasureSeesGarbage: it reads the runtime's own metrics by name.
func TestMeasureSeesGarbage(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // no collection in between
	runtime.GC()
	before := measure()
	waste := make([]byte, 4*idleAllocation)
	runtime.KeepAlive(waste)
	after := measure()
	if after.allocated-before.allocated < 4*idleAllocation || after.garbage < before.garbage+3*idleAllocation {
		t.Errorf("before %+v, after %d bytes more %+v", before, len(waste), after)
	}
	debug.FreeOSMemory()
	if freed := measure(); freed.garbage >= after.garbage {
		t.Errorf("before %+v, after it was given back %+v", after, freed)
	}
}

// reviewingServer is an API server that knows two tokens, one of which may read metrics, and counts the tokens it
// reviews. It fails for the token "alarm".
func reviewingServer(t *testing.T, reviews *atomic.Int32) *rest.Config {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any
		switch r.URL.Path {
		case "/apis/authentication.k8s.io/v1/tokenreviews":
			if reviews != nil {
				reviews.Add(1)
			}
			review := &authenticationv1.TokenReview{}
			if err := json.NewDecoder(r.Body).Decode(review); err != nil {
				t.Error(err)
			}
			review.Status.Authenticated = review.Spec.Token == "prometheus" || review.Spec.Token == "stranger"
			review.Status.User.Username = review.Spec.Token
			switch review.Spec.Token {
			case "forged": // as the API server responds
				review.Status.Error = "[invalid bearer token, square/go-jose: error in cryptographic primitive]"
			case "alarm":
				http.Error(w, "etcd is away", http.StatusInternalServerError)
				return
			}
			answer = review
		case "/apis/authorization.k8s.io/v1/subjectaccessreviews":
			review := &authorizationv1.SubjectAccessReview{}
			if err := json.NewDecoder(r.Body).Decode(review); err != nil {
				t.Error(err)
			}
			asked := review.Spec.NonResourceAttributes
			review.Status.Allowed = review.Spec.User == "prometheus" && asked != nil && asked.Path == "/metrics" && asked.Verb == "get"
			answer = review
		default:
			t.Errorf("unexpected request %s", r.URL.Path)
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

func TestMetricsAreServedToThoseWhoMayReadThem(t *testing.T) {
	cases := map[string]struct {
		token string
		want  int
	}{
		"no token":               {"", http.StatusUnauthorized},
		"a token of nobody's":    {"forged", http.StatusUnauthorized},
		"an unknown token":       {"unknown", http.StatusUnauthorized},
		"the server fails":       {"alarm", http.StatusServiceUnavailable},
		"a token without rights": {"stranger", http.StatusForbidden},
		"a reader's token":       {"prometheus", http.StatusOK},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			handler, err := metricsHandler(reviewingServer(t, nil), http.DefaultClient, true, time.Now)
			if err != nil {
				t.Fatal(err)
			}
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
			if c.token != "" {
				request.Header.Set("Authorization", "Bearer "+c.token)
			}
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, request)
			if answer.Code != c.want {
				t.Errorf("answered %d %s, want %d", answer.Code, answer.Body, c.want)
			}
		})
	}
}

func TestMetricsForEveryoneAreAskedForByName(t *testing.T) {
	handler, err := metricsHandler(nil, nil, false, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if answer.Code != http.StatusOK {
		t.Errorf("without --metrics-auth the answer is %d %s", answer.Code, answer.Body)
	}
}

// TestAFloodOfScrapes: whatever clients send, the API server reviews few tokens.
func TestAFloodOfScrapes(t *testing.T) {
	for name, c := range map[string]struct {
		from func(int) string
		most int
	}{
		"from one pod":   {func(int) string { return "10.0.0.7:4000" }, metricsSender.Burst},
		"from many pods": {func(i int) string { return fmt.Sprintf("10.0.%d.%d:4000", i/200, i%200) }, metricsTotal.Burst},
	} {
		t.Run(name, func(t *testing.T) {
			var reviews atomic.Int32
			at := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
			handler, err := metricsHandler(reviewingServer(t, &reviews), http.DefaultClient, true, func() time.Time { return at })
			if err != nil {
				t.Fatal(err)
			}
			refused := 0
			for i := range 400 {
				request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
				request.RemoteAddr = c.from(i)
				request.Header.Set("Authorization", fmt.Sprint("Bearer token-", i))
				answer := httptest.NewRecorder()
				handler.ServeHTTP(answer, request)
				if answer.Code == http.StatusTooManyRequests {
					refused++
				}
			}
			if got := int(reviews.Load()); got != c.most || refused != 400-c.most {
				t.Errorf("400 requests caused %d TokenReviews, and %d were refused; want %d and %d", got, refused, c.most, 400-c.most)
			}
		})
	}
}

// TestFewScrapesAtATime: idle connections make others wait, and the number of open ones is limited.
func TestFewScrapesAtATime(t *testing.T) {
	server, err := newMetricsServer(t.Context(), reviewingServer(t, nil), http.DefaultClient, &runOptions{metricsAddr: "127.0.0.1:0", metricsAuth: true})
	if err != nil {
		t.Fatal(err)
	}
	counted := &countedListener{Listener: server.Listener}
	server.Listener = counted
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	insecure := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true} //nolint:gosec // its own certificate
	var clients sync.WaitGroup
	for range 3 * maxScrapes {
		clients.Add(1)
		go func() {
			defer clients.Done()
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+server.Listener.Addr().String()+"/metrics", nil)
			if err != nil {
				t.Error(err)
				return
			}
			response, err := insecure.RoundTrip(request)
			if err != nil {
				t.Error(err)
				return
			}
			_ = response.Body.Close()
			if response.ProtoMajor != 1 {
				t.Errorf("answered by %s: one connection has many requests", response.Proto)
			}
		}()
	}
	clients.Wait()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := counted.most; n == 0 || n > maxScrapes {
		t.Errorf("%d connections were open at a time, want at most %d", n, maxScrapes)
	}
}

// countedListener counts concurrent connections. It counts a connection as closed before the listener below accepts the
// next one: http.Server.ConnState reports StateClosed only after that.
type countedListener struct {
	net.Listener
	mu         sync.Mutex
	open, most int
}

func (l *countedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open++
	l.most = max(l.most, l.open)
	return &countedConn{Conn: conn, closed: sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open--
	})}, nil
}

type countedConn struct {
	net.Conn
	closed func()
}

func (c *countedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

func TestProfilesAreServedOnLoopbackOnly(t *testing.T) {
	for addr, good := range map[string]bool{
		"0": true, "localhost:6060": true, "127.0.0.1:6060": true, "[::1]:6060": true,
		":6060": false, "0.0.0.0:6060": false, "[::]:6060": false, "10.0.0.7:6060": false, "example.com:6060": false, "6060": false,
	} {
		if err := checkProfilingAddr(addr); (err == nil) != good {
			t.Errorf("--profiling-addr %s: %v", addr, err)
		}
	}
}
