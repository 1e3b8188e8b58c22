package source_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/source"
)

// withoutBlobs makes a host omit blobs and report its response as complete: it adds a filter, unknown to the client, to
// the request for a pack.
func withoutBlobs(t *testing.T, h *host, when func(request []byte) bool) {
	t.Helper()
	git(t, h.repository, "", "config", "uploadpack.allowFilter", "true")
	inner := h.handler
	h.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			if when(body) {
				body = filtered(t, body)
			}
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			r.Header.Set("Content-Length", strconv.Itoa(len(body)))
		}
		inner.ServeHTTP(w, r)
	})
}

// filtered adds the capability to the first line and the filter before the flush.
func filtered(t *testing.T, body []byte) []byte {
	t.Helper()
	n, err := strconv.ParseInt(string(body[:4]), 16, 32)
	if err != nil {
		t.Fatal(err)
	}
	first, rest := string(bytes.TrimSuffix(body[4:n], []byte("\n")))+" filter\n", body[n:]
	lines, haves, found := bytes.Cut(rest, []byte("0000"))
	if !found {
		t.Fatalf("no flush in %q", rest)
	}
	return fmt.Appendf(nil, "%04x%s%s0015filter blob:none\n0000%s", len(first)+4, first, lines, haves)
}

func TestFetchShowsThatEveryObjectIsPresent(t *testing.T) {
	deepens := func(request []byte) bool { return bytes.Contains(request, []byte("deepen 1")) }
	t.Run("an increment that is not is cloned anew", func(t *testing.T) {
		h := newHost(t)
		h.commit(t, "main", files{"nodes/a.yaml": "a"})
		c := newClient(t, h.url, source.Options{})
		c.mustFetch(t, v1alpha1.GitRef{})
		withoutBlobs(t, h, func(request []byte) bool { return !deepens(request) })
		commit := h.commit(t, "main", files{"nodes/a.yaml": "aa"})
		wantContent(t, c.mustFetch(t, v1alpha1.GitRef{}), commit, map[string]string{"nodes/a.yaml": "aa"})
		if h.packs.Load() != 3 {
			t.Errorf("%d packs, want the first, the incomplete and the new one", h.packs.Load())
		}
		wantOneStore(t, c)
	})
	for folder, missed := range map[string]bool{"": true, "./nodes/eu/": true, "nodes/eu": true, "other": true, "none": false, "empty": false} {
		t.Run("a clone that is not, below "+path.Join("/", folder), func(t *testing.T) {
			h := newHost(t)
			h.commit(t, "main", files{"nodes/eu/a.yaml": "a", "other": "-> nodes", "empty/sub": "submodule"})
			withoutBlobs(t, h, deepens)
			c := newClient(t, h.url, source.Options{})
			c.request.Path = folder
			_, err := c.fetch(t, v1alpha1.GitRef{})
			var lost *source.MissingError
			if errors.As(err, &lost) != missed || !missed && err != nil {
				t.Fatalf("error %v", err)
			}
			if missed && folder != "other" && folder != "" && lost.Name != "nodes/eu/a.yaml" {
				t.Errorf("the missing file is called %q", lost.Name)
			}
		})
	}
}

// A missing object outside the folder is only noticed when it is read; the next fetch repairs that.
func TestFetchHealsWhatWasMissedByAReader(t *testing.T) {
	h := newHost(t)
	commit := h.commit(t, "main", files{"bases/b.yaml": "b", "nodes/sub": "submodule"})
	incomplete := true
	withoutBlobs(t, h, func([]byte) bool { return incomplete })
	c := newClient(t, h.url, source.Options{})
	c.request.Path = "nodes"
	s := c.mustFetch(t, v1alpha1.GitRef{})
	data, err := fs.ReadFile(s.FS, "bases/b.yaml")
	var lost *source.MissingError
	if !errors.As(err, &lost) {
		t.Fatalf("%q, %v: want a MissingError", data, err)
	}
	incomplete = false
	wantContent(t, c.mustFetch(t, v1alpha1.GitRef{}), commit, map[string]string{"bases/b.yaml": "b"})
}
