package source_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

// TestLongWaysOfSymlinks shows that a name may contain forty symlinks, but not an endless path of folders.
func TestLongWaysOfSymlinks(t *testing.T) {
	h := newHost(t)
	tree := files{"a/file.yaml": "a"}
	there, back := "a/..", strings.Repeat("/a/..", 600)
	tree["link.yaml"] = "-> " + there + back + "/a/file.yaml"
	tree["few.yaml"] = "-> " + there + "/a/file.yaml"
	for i := range 3 {
		tree[fmt.Sprintf("step%d", i)] = "-> a" + strings.Repeat("/../a", 100)
	}
	tree["some.yaml"] = "-> step0/../step1/../step2/file.yaml"
	h.commit(t, "main", tree)
	s := newClient(t, h.url, source.Options{}).mustFetch(t, v1alpha1.GitRef{})
	for name, long := range map[string]bool{"link.yaml": true, "few.yaml": false, "some.yaml": false} {
		data, err := fs.ReadFile(s.FS, name)
		if is := errors.As(err, new(*source.SymlinkError)); is != long || !long && string(data) != "a" {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
}

// TestHistoryEndsWithItsContext: finding which of fifty commits changed one of many thousand inputs may take minutes,
// and a reconcile does not wait for it.
func TestHistoryEndsWithItsContext(t *testing.T) {
	h := newHost(t)
	c := newClient(t, h.url, source.Options{})
	applied := h.commit(t, "main", files{"a.yaml": "1"})
	c.mustFetch(t, v1alpha1.GitRef{})
	head := h.commit(t, "main", files{"a.yaml": "2"})
	inputs := inputsOf(t, c.mustFetch(t, v1alpha1.GitRef{}), "a.yaml")
	if changed, known := c.git.Since(t.Context(), c.request.Key, applied, render.Read{Inputs: inputs, Known: true}, 50); !known || len(changed) != 1 || changed[0] != head {
		t.Fatalf("changed by %v, %t", changed, known)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if changed, known := c.git.Since(ended, c.request.Key, applied, render.Read{Inputs: inputs, Known: true}, 50); known {
		t.Errorf("it went on to %v", changed)
	}
	if _, err := c.git.FindSince(ended, c.request, applied, render.Read{Inputs: inputs, Known: true}, 50); !errors.As(err, new(*source.HistoryError)) {
		t.Errorf("it went on: %v", err)
	}
}

// TestAFetchEndsWithItsContext shows that a fetch stops while it verifies the commit's objects, and that the next one
// does not clone again because of that.
func TestAFetchEndsWithItsContext(t *testing.T) {
	h := newHost(t)
	c := newClient(t, h.url, source.Options{})
	commit := h.commit(t, "main", files{"a/b/a.yaml": "1"})
	c.mustFetch(t, v1alpha1.GitRef{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := c.git.Fetch(ctx, c.request); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	if s := c.mustFetch(t, v1alpha1.GitRef{}); s.Commit != commit || h.packs.Load() != 1 {
		t.Errorf("%s after %d packs", s.Commit, h.packs.Load())
	}
}
