package source_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/source"
)

// TestReplacedObjectsAreNotFollowed: refs/replace and grafts replace an object with another, possibly unsigned one. The
// fetched object is the one with the hash.
func TestReplacedObjectsAreNotFollowed(t *testing.T) {
	h := newHost(t)
	h.commit(t, "main", files{"a.yaml": "first"})
	second := h.commit(t, "main", files{"a.yaml": "real"})
	evil := h.orphan(t, "evil", files{"a.yaml": "replaced"})
	for _, part := range []string{":a.yaml", "^{tree}", ""} {
		named := func(commit string) string {
			return strings.TrimSpace(git(t, h.repository, "", "rev-parse", commit+part))
		}
		git(t, h.repository, "", "replace", named(second), named(evil))
	}
	graft(t, h, second, evil)
	if shown := git(t, h.repository, "", "show", second+":a.yaml"); shown != "replaced" {
		t.Fatalf("git itself shows %q: the test proves nothing", shown)
	}
	c := newClient(t, h.url, source.Options{})
	wantContent(t, c.mustFetch(t, v1alpha1.GitRef{}), second, map[string]string{"a.yaml": "real"})
	wantContent(t, c.mustFetch(t, v1alpha1.GitRef{Commit: second}), second, map[string]string{"a.yaml": "real"})
}

// TestGraftsDoNotVouch shows that Range does not skip an unsigned commit because the host grafts its signed child onto
// another commit.
func TestGraftsDoNotVouch(t *testing.T) {
	for name, hide := range map[string]func(t *testing.T, s *signed, head, good, unsigned string){
		"a graft": func(t *testing.T, s *signed, head, good, _ string) {
			t.Helper()
			graft(t, s.host, head, good)
		},
		"a replaced commit": func(t *testing.T, s *signed, _, good, unsigned string) {
			t.Helper()
			s.git(t, "", "replace", "-f", unsigned, good)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSigned(t)
			good := s.push(t, true)
			unsigned := s.make(t, false, good)
			head := s.push(t, true, unsigned)
			hide(t, s, head, good, unsigned)
			s.verified = good
			if found, err := s.verify(t, v1alpha1.VerifyRange, main); err == nil {
				t.Errorf("Verify() = %+v", found)
			}
		})
	}
}

// graft makes a host's git treat one commit as the only parent of another.
func graft(t *testing.T, h *host, commit, parent string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(h.repository, "info"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.repository, "info/grafts"), []byte(commit+" "+parent+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}
