package source_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/source"
)

// TestARevertOfManyFiles shows that a folder is read once rather than for each file in it, so that a commit cannot keep
// the daemon busy, and that the revert stops when its context ends.
func TestARevertOfManyFiles(t *testing.T) {
	h := newHost(t)
	h.takesPushes(t)
	many := files{"nodes/a.yaml": "2"}
	for i := range 20_000 {
		many[fmt.Sprintf("nodes/other-%05d", i)] = "x"
	}
	from := h.commit(t, "main", files{"nodes/a.yaml": "1"})
	bad := h.commit(t, "main", many)
	for i := range 5 {
		h.commit(t, "main", files{"README.md": fmt.Sprint(i)})
	}
	c := newClient(t, h.url, source.Options{})
	revert := func(within time.Duration) (source.Reverted, error) {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		return c.git.Revert(ctx, c.request, source.Revert{Branch: proposal, From: from, Bad: bad, Within: below("nodes"), Message: "m", At: time.Unix(1_700_000_000, 0)})
	}
	if _, err := revert(time.Nanosecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without any time: %v", err)
	}
	if done, err := revert(time.Minute); err != nil || len(done.Files) != 20_001 || len(done.Undone) != 1 {
		t.Errorf("%d files, %d commits, error %v", len(done.Files), len(done.Undone), err)
	}
}
