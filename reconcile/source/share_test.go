package source_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

// ticking is a clock that never returns the same time twice.
type ticking struct{ ticks atomic.Int64 }

func (c *ticking) now() time.Time {
	return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(c.ticks.Add(1)))
}

// fetchAs fetches as another NodeSync, with a result not older than a time.
func (c *client) fetchAs(t *testing.T, key string, notBefore time.Time) (*render.Snapshot, time.Time, error) {
	t.Helper()
	req := c.request
	req.Key, req.NotBefore = key, notBefore
	return c.git.Fetch(t.Context(), req)
}

// stores returns the stores that are on disk.
func (c *client) stores(t *testing.T) []os.DirEntry {
	t.Helper()
	stores, err := os.ReadDir(filepath.Join(c.dir, "stores"))
	if err != nil {
		t.Fatal(err)
	}
	return stores
}

// Fifty NodeSyncs of one repository that are all notified of a push fetch it once, and read the same files.
func TestFetchIsSharedByAllOfOneRepository(t *testing.T) {
	h := newHost(t)
	clock := &ticking{}
	c := newClient(t, h.url, source.Options{Now: clock.now})
	for push := range 3 {
		commit := h.commit(t, "main", files{"a.yaml": fmt.Sprint(push)})
		pushedAt := clock.now()
		var (
			keys  sync.WaitGroup
			mu    sync.Mutex
			began = map[time.Time]bool{}
			given = map[*render.Snapshot]bool{}
		)
		for i := range 50 {
			keys.Go(func() {
				s, at, err := c.fetchAs(t, fmt.Sprint("default/", i), pushedAt)
				if err != nil || s.Commit != commit || at.Before(pushedAt) {
					t.Errorf("key %d: %+v of %s, %v; want %s", i, s, at, err, commit)
				}
				mu.Lock()
				defer mu.Unlock()
				began[at], given[s] = true, true
			})
		}
		keys.Wait()
		if int(h.packs.Load()) != push+1 || int(h.asked.Load()) != push+1 {
			t.Errorf("%d packs and %d questions after %d pushes", h.packs.Load(), h.asked.Load(), push+1)
		}
		if len(began) != 1 || len(given) != 1 {
			t.Errorf("%d times and %d snapshots for one fetch", len(began), len(given))
		}
		wantOneStore(t, c)
	}
}

// A result that started before NotBefore is not used.
func TestFetchIsSharedOnlyWhereItIsNewEnough(t *testing.T) {
	h := newHost(t)
	clock := &ticking{}
	c := newClient(t, h.url, source.Options{Now: clock.now})
	h.commit(t, "main", files{"a.yaml": "1"})
	before := clock.now()
	_, began, err := c.fetchAs(t, "default/a", before)
	if err != nil {
		t.Fatal(err)
	}
	second := h.commit(t, "main", files{"a.yaml": "2"})
	asked := func(notBefore time.Time) (again bool, commit string) {
		questions := h.asked.Load()
		s, _, err := c.fetchAs(t, "default/b", notBefore)
		if err != nil {
			t.Fatal(err)
		}
		return h.asked.Load() > questions, s.Commit
	}
	if again, commit := asked(began); again || commit == second {
		t.Errorf("a fetch that began when it was due was not enough: %t %s", again, commit)
	}
	if again, commit := asked(began.Add(1)); !again || commit != second {
		t.Errorf("a fetch that began too early was enough: %t %s", again, commit)
	}
	if again, _ := asked(time.Time{}); !again {
		t.Error("one that wants a fetch of its own got another's")
	}
}

// A failed fetch is shared too, so that a hanging host delays every caller only once.
func TestFailureIsShared(t *testing.T) {
	var tried atomic.Int64
	hang := listen(t, func(c net.Conn) { tried.Add(1); _, _ = io.Copy(io.Discard, c) })
	clock := &ticking{}
	c := newClient(t, "http://"+hang.Addr().String()+"/x.git", source.Options{Now: clock.now})
	due := clock.now()
	try := func(key string, patience time.Duration) time.Time {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		req := c.request
		req.Key, req.NotBefore = key, due
		_, at, err := c.git.Fetch(ctx, req)
		var away *source.UnreachableError
		if !errors.As(err, &away) || !away.Timeout {
			t.Errorf("error %v, want an UnreachableError by time", err)
		}
		return at
	}
	first := try("default/a", 100*time.Millisecond)
	if second := try("default/b", 90*time.Millisecond); !second.Equal(first) || tried.Load() != 1 {
		t.Errorf("a failure of %s was not shared: %s, %d tries", first, second, tried.Load())
	}
	if third := try("default/c", 2*time.Second); third.Equal(first) || tried.Load() != 2 {
		t.Errorf("more patience made no try of its own: %d tries", tried.Load())
	}
}

// A caller that is cancelled while waiting gets its own error, and does not stop other callers.
func TestFetchStoppedByItsCallerIsNotShared(t *testing.T) {
	h := newHost(t)
	clock := &ticking{}
	c := newClient(t, h.url, source.Options{Now: clock.now})
	commit := h.commit(t, "main", files{"a.yaml": "a"})
	due := clock.now()
	inner, arrived, goOn := h.handler, make(chan struct{}), make(chan struct{})
	var once sync.Once
	h.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		once.Do(func() { close(arrived); <-goOn })
		inner.ServeHTTP(w, r)
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, _, err := c.git.Fetch(ctx, source.Request{Key: "default/a", URL: c.request.URL, Credentials: c.request.Credentials, NotBefore: due})
		ended <- err
	}()
	<-arrived
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, _, err := c.git.Fetch(stopped, source.Request{Key: "default/b", URL: c.request.URL, Credentials: c.request.Credentials}); !errors.Is(err, context.Canceled) {
		t.Errorf("one that waits was not stopped: %v", err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want the context's", err)
	}
	close(goOn)
	if s, _, err := c.fetchAs(t, "default/b", due); err != nil || s.Commit != commit {
		t.Errorf("%v, %v: want a fetch of its own", s, err)
	}
}

func TestStoresAreHeldByTheirKeys(t *testing.T) {
	h, other := newHost(t), newHost(t)
	h.commit(t, "main", files{"a.yaml": "a"})
	h.commit(t, "next", files{"a.yaml": "next"})
	other.commit(t, "main", files{"a.yaml": "other"})
	bearer := source.Credentials{BearerToken: password}
	moves := map[string]func(*source.Request){
		"another URL":         func(r *source.Request) { r.URL = other.url },
		"another reference":   func(r *source.Request) { r.Ref = v1alpha1.GitRef{Branch: "next"} },
		"another credentials": func(r *source.Request) { r.Credentials = bearer },
	}
	for name, move := range moves {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, h.url, source.Options{})
			fetch := func(key string, change func(*source.Request)) {
				t.Helper()
				req := c.request
				req.Key = key
				change(&req)
				if _, _, err := c.git.Fetch(t.Context(), req); err != nil {
					t.Fatal(err)
				}
			}
			stay := func(*source.Request) {}
			want := func(when string, n int) {
				t.Helper()
				if left := c.stores(t); len(left) != n {
					t.Errorf("%s: %d stores, want %d", when, len(left), n)
				}
			}
			fetch("default/a", stay)
			fetch("default/b", stay)
			want("two that are alike", 1)
			fetch("default/a", move)
			want("one has moved", 2)
			fetch("default/b", move)
			want("both have moved", 1)
			fetch("default/b", stay)
			want("one has moved back", 2)
			for i, key := range []string{"default/a", "default/unknown", "default/b"} {
				if err := c.git.Forget(key); err != nil {
					t.Fatal(err)
				}
				want("forget "+key, min(1, 2-i))
			}
		})
	}
}

// A NodeSync whose new credentials are wrong keeps using its last Snapshot, and holds only that store and the one of
// its current request.
func TestStoreIsKeptUntilTheNextOneIsThere(t *testing.T) {
	h := newHost(t)
	commit := h.commit(t, "main", files{"a.yaml": "a"})
	c := newClient(t, h.url, source.Options{})
	s := c.mustFetch(t, v1alpha1.GitRef{})
	right := c.request.Credentials
	for i := range 3 {
		c.request.Credentials.Password = fmt.Sprint("wr0ng", i)
		if _, err := c.fetch(t, v1alpha1.GitRef{}); !as[*source.AuthError](err) {
			t.Fatalf("error %v, want an AuthError", err)
		}
		wantContent(t, s, commit, map[string]string{"a.yaml": "a"})
	}
	c.request.Credentials = right
	c.mustFetch(t, v1alpha1.GitRef{})
	if h.packs.Load() != 1 {
		t.Errorf("%d packs fetched, want the first alone", h.packs.Load())
	}
	if err := c.git.Forget(c.request.Key); err != nil || len(c.stores(t)) != 0 {
		t.Errorf("left: %v, %v", c.stores(t), err)
	}
}

// A shared result is verified for the caller's own folder, and is not used if a reader has missed an object since.
func TestSharedAnswerIsWhole(t *testing.T) {
	h := newHost(t)
	clock := &ticking{}
	h.commit(t, "main", files{"bases/b.yaml": "b", "nodes/sub": "submodule"})
	incomplete := true
	withoutBlobs(t, h, func([]byte) bool { return incomplete })
	c := newClient(t, h.url, source.Options{Now: clock.now})
	c.request.Path = "nodes"
	due := clock.now()
	if _, _, err := c.fetchAs(t, "default/a", due); err != nil {
		t.Fatal(err)
	}
	incomplete = false
	c.request.Path = "bases"
	s, _, err := c.fetchAs(t, "default/b", due)
	if err != nil {
		t.Fatal(err)
	}
	if got := content(t, s)["bases/b.yaml"]; got != "b" || h.packs.Load() != 2 {
		t.Errorf("%q after %d packs", got, h.packs.Load())
	}
}

func TestFetchCountsWhatItReceives(t *testing.T) {
	h := newHost(t)
	var got []int64
	c := newClient(t, h.url, source.Options{OnFetch: func(s source.FetchStats) { got = append(got, s.Received) }})
	h.commit(t, "main", files{"a.yaml": "a"})
	c.mustFetch(t, v1alpha1.GitRef{})
	c.mustFetch(t, v1alpha1.GitRef{})
	h.commit(t, "main", files{"b": noise(newNoise(), 100_000)})
	c.mustFetch(t, v1alpha1.GitRef{})
	h.server.Close()
	_, _ = c.fetch(t, v1alpha1.GitRef{})
	if len(got) != 4 || got[1] < 100 || got[1] >= got[0] || got[2] < 70_000 || got[2] > 110_000 || got[3] != 0 {
		t.Errorf("received %v: want a clone, references alone, 100 kB that compress by a quarter, nothing", got)
	}
}
