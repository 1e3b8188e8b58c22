package source_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/source"
)

// trickle answers with 10 kB/s.
type trickle struct {
	http.ResponseWriter
	r *http.Request
}

const (
	drop  = 500
	every = 50 * time.Millisecond
)

func (w trickle) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		select {
		case <-w.r.Context().Done():
			return n, w.r.Context().Err()
		case <-time.After(every):
		}
		written, err := w.ResponseWriter.Write(p[:min(drop, len(p))])
		n += written
		if err != nil {
			return n, err
		}
		_ = http.NewResponseController(w.ResponseWriter).Flush()
		p = p[written:]
	}
	return n, nil
}

// Over a connection of 10 kB/s a small fetch succeeds; a large one times out with a matching error, and leaves nothing
// behind.
func TestFetchFromASlowHost(t *testing.T) {
	h := newHost(t)
	inner := h.handler
	h.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { inner.ServeHTTP(trickle{w, r}, r) })
	small := h.commit(t, "main", files{"a.yaml": "a"})
	c := newClient(t, h.url, source.Options{})
	wantContent(t, c.mustFetch(t, v1alpha1.GitRef{}), small, map[string]string{"a.yaml": "a"})

	h.commit(t, "main", files{"noise": noise(newNoise(), 4<<20)}) // five minutes at that rate
	c.git = source.NewGit(source.Options{Dir: c.dir, Timeout: 3 * time.Second})
	_, err := c.fetch(t, v1alpha1.GitRef{})
	var away *source.UnreachableError
	if !errors.As(err, &away) || !away.Timeout {
		t.Fatalf("error %v, want an UnreachableError by time", err)
	}
	if left := c.stores(t); len(left) != 0 {
		t.Errorf("left on disk: %v", left)
	}
	healed := h.commit(t, "main", files{"noise": "", "a.yaml": "aa"})
	c.git = source.NewGit(source.Options{Dir: c.dir})
	wantContent(t, c.mustFetch(t, v1alpha1.GitRef{}), healed, map[string]string{"a.yaml": "aa"})
}
