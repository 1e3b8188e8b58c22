package source_test

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/source"
)

// While stores grow and are replaced, every reader of a Snapshot gets its original content or an error that it was
// superseded.
func TestReadersOfSnapshots(t *testing.T) {
	h := newHost(t)
	c := newClient(t, h.url, source.Options{})
	var readers sync.WaitGroup
	stop := make(chan struct{})
	defer readers.Wait()
	defer close(stop)
	for i := range 7 {
		content := fmt.Sprintf("%d", i)
		if i%3 == 0 {
			h.orphan(t, "main", files{"a.yaml": content, "nodes/b.yaml": content})
			git(t, h.repository, "", "gc", "-q", "--prune=now")
		} else {
			h.commit(t, "main", files{"a.yaml": content, "nodes/b.yaml": content})
		}
		s := c.mustFetch(t, v1alpha1.GitRef{})
		for _, name := range []string{"a.yaml", "nodes/b.yaml"} {
			if data, err := fs.ReadFile(s.FS, name); err != nil || string(data) != content {
				t.Fatalf("%s is %q, %v; want %s", name, data, err, content)
			}
			readers.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(time.Millisecond):
					}
					data, err := fs.ReadFile(s.FS, name)
					var stale *source.StaleError
					if errors.As(err, &stale) {
						return
					}
					if err != nil || string(data) != content {
						t.Errorf("%s is %q, %v; want %s", name, data, err, content)
						return
					}
				}
			})
		}
	}
}
