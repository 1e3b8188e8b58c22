package stories_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// indexBomb serves a chart repository whose index has the maximum size, and consists of brackets.
func (s *story) indexBomb(ts *testscript.TestScript) {
	const open, closed = "apiVersion: v1\nentries: {karpenter: [", "[]]}\n"
	index := []byte(open + strings.Repeat("[],", (8<<20-len(open)-len(closed))/3) + closed)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/index.yaml" {
			http.ServeContent(w, r, "index.yaml", s.began, bytes.NewReader(index))
			return
		}
		http.NotFound(w, r)
	}))
	s.t.Cleanup(server.Close)
	ts.Setenv("INDEX", server.URL)
}

// manyObjects is more than a fetch may contain, each of a few bytes.
const manyObjects = 300_000

// objectsBomb pushes a branch with that many objects.
func (s *story) objectsBomb(branch string) error {
	head, err := s.git("", "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	var stream strings.Builder
	fmt.Fprintf(&stream, "commit refs/heads/%s\ncommitter Engineer <engineer@example.com> 1700000000 +0000\ndata 4\nmany\nfrom %s\n", branch, head)
	for i := range manyObjects {
		fmt.Fprintf(&stream, "M 100644 inline b/bomb/%d/%d\ndata %d\n%d\n", i/1000, i%1000, len(fmt.Sprint(i)), i)
	}
	if _, err := s.git(stream.String(), "fast-import", "--quiet"); err != nil {
		return err
	}
	_, err = s.git("", "push", "--quiet", "origin", branch)
	return err
}
