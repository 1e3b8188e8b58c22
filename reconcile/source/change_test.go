package source_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

const train = "plumbline/images/demo_fleet/demo_fleet-al2023-v2"

// replaces returns an edit that replaces one word in nodes/a.yaml.
func replaces(from, to string) func(context.Context, *render.Snapshot) (map[string][]byte, error) {
	return func(_ context.Context, at *render.Snapshot) (map[string][]byte, error) {
		data, err := fs.ReadFile(at.FS, "nodes/a.yaml")
		if err != nil {
			return nil, err
		}
		return map[string][]byte{"nodes/a.yaml": []byte(strings.ReplaceAll(string(data), from, to))}, nil
	}
}

func (c *client) change(t *testing.T, message, from, to string) (source.Changed, error) {
	t.Helper()
	of := earlier()
	of.Edit, of.Message, of.At = replaces(from, to), message, time.Unix(1_700_000_000, 0)
	return c.git.Change(t.Context(), c.request, of)
}

// earlier returns a Change of which only the branch is known, and what earlier ones have changed.
func earlier() source.Change {
	return source.Change{Branch: train, Earlier: func(ctx context.Context, at *render.Snapshot, message string) (map[string][]byte, error) {
		_, to, _ := strings.Cut(message, "to ")
		return replaces("v1", to)(ctx, at)
	}}
}

// TestChange: a branch gets one commit with the change. It stays while nothing else changes the file, is rebased when
// something does, and is replaced by another change; a commit of anyone else is never overwritten.
func TestChange(t *testing.T) {
	h := newHost(t)
	h.takesPushes(t)
	base := h.commit(t, "main", files{"nodes/a.yaml": "alias: v1 # x", "README.md": "r1"})
	c := newClient(t, h.url, source.Options{})
	first, err := c.change(t, "to v2", "v1", "v2")
	if err != nil {
		t.Fatal(err)
	}
	if want := (source.Changed{Commit: first.Commit, Head: base, Files: []string{"nodes/a.yaml"}, Pushed: true}); !cmp.Equal(want, first) {
		t.Fatal(cmp.Diff(want, first))
	}
	if diff := cmp.Diff(files{"nodes/a.yaml": "100644 alias: v2 # x", "README.md": "100644 r1"}, h.listing(t, train)); diff != "" {
		t.Fatal(diff)
	}
	// A later commit of another file changes nothing.
	h.commit(t, "main", files{"README.md": "r2"})
	again, err := c.change(t, "to v2", "v1", "v2")
	if err != nil || again.Commit != first.Commit || again.Pushed {
		t.Fatalf("got %+v, %v, want the first commit", again, err)
	}
	// One of the same file has it rebased.
	head := h.commit(t, "main", files{"nodes/a.yaml": "alias: v1 # y"})
	rebased, err := c.change(t, "to v2", "v1", "v2")
	if err != nil || rebased.Head != head || !rebased.Pushed {
		t.Fatalf("got %+v, %v, want it on top of %s", rebased, err, head)
	}
	if got := h.listing(t, train)["nodes/a.yaml"]; got != "100644 alias: v2 # y" {
		t.Fatal(got)
	}
	// Another change replaces it.
	other, err := c.change(t, "to v3", "v1", "v3")
	if err != nil || !other.Pushed {
		t.Fatalf("got %+v, %v", other, err)
	}
	if got := h.listing(t, train)["nodes/a.yaml"]; got != "100644 alias: v3 # y" {
		t.Fatal(got)
	}
	// Only our own commit is deleted or replaced.
	if err := c.git.DeleteBranch(t.Context(), c.request, earlier(), first.Commit); !errors.As(err, new(*source.BranchError)) {
		t.Fatalf("got %v, want a BranchError", err)
	}
	foreign := h.commit(t, train, files{"nodes/a.yaml": "alias: v9"})
	for _, to := range []string{"v3", "v4"} {
		if _, err := c.change(t, "to "+to, "v1", to); !errors.As(err, new(*source.BranchError)) {
			t.Fatalf("got %v, want a BranchError", err)
		}
	}
	if !strings.Contains(h.refs(t), "refs/heads/"+train+" "+foreign) {
		t.Fatal("the commit of another author was overwritten")
	}
	if err := c.git.DeleteBranch(t.Context(), c.request, earlier(), foreign); !errors.As(err, new(*source.BranchError)) || !strings.Contains(h.refs(t), train) {
		t.Fatalf("got %v, want a BranchError, and the branch", err)
	}
	git(t, h.repository, "", "update-ref", "refs/heads/"+train, other.Commit)
	if err := c.git.CheckBranch(t.Context(), c.request, earlier(), foreign); !errors.As(err, new(*source.BranchError)) {
		t.Fatalf("got %v, want a BranchError", err)
	}
	if err := c.git.CheckBranch(t.Context(), c.request, earlier(), other.Commit); err != nil || !strings.Contains(h.refs(t), train) {
		t.Fatalf("got %v, want the branch to stay", err)
	}
	if err := c.git.DeleteBranch(t.Context(), c.request, earlier(), other.Commit); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(h.refs(t), train) {
		t.Fatal("the branch still exists")
	}
	// What the branch already has is no change.
	h.commit(t, "main", files{"nodes/a.yaml": "alias: v2"})
	none, err := c.change(t, "to v2", "v1", "v2")
	if err != nil || none.Commit != "" {
		t.Fatalf("got %+v, %v, want nothing", none, err)
	}
}

// TestChangeRefuses: no other branch is written, and nothing but a file is changed.
func TestChangeRefuses(t *testing.T) {
	h := newHost(t)
	h.commit(t, "main", files{"nodes/a.yaml": "v1", "nodes/link": "-> a.yaml"})
	c := newClient(t, h.url, source.Options{})
	if _, err := c.git.Change(t.Context(), c.request, source.Change{Branch: "main", Edit: replaces("v1", "v2")}); err == nil {
		t.Error("main was written")
	}
	if err := c.git.DeleteBranch(t.Context(), c.request, source.Change{Branch: "main"}, strings.Repeat("0", 40)); err == nil {
		t.Error("main was deleted")
	}
	for _, name := range []string{"nodes/link", "nodes/new"} {
		_, err := c.git.Change(t.Context(), c.request, source.Change{
			Branch: train, Edit: func(context.Context, *render.Snapshot) (map[string][]byte, error) {
				return map[string][]byte{name: []byte("x")}, nil
			},
		})
		if !errors.As(err, new(*source.GraftError)) {
			t.Errorf("%s: got %v, want a GraftError", name, err)
		}
	}
	// A host that takes no push is named.
	var refused *source.PushError
	if _, err := c.change(t, "to v2", "v1", "v2"); !errors.As(err, &refused) || !refused.Denied {
		t.Errorf("got %v, want a PushError", err)
	}
}
