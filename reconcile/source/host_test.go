package source_test

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

const (
	user     = "plumbline"
	password = "s3cret/with+signs"
)

// host is a real Git server with one repository, over http.
type host struct {
	repository string // the bare repository's folder
	url        string
	server     *httptest.Server
	mu         sync.Mutex // guards what a test changes while the host serves requests
	handler    http.Handler
	clock      int

	// asked counts requests for references, packs those for packs.
	asked, packs atomic.Int64
}

// newHost serves an empty repository behind basic auth.
func newHost(t *testing.T) *host {
	t.Helper()
	h := newRepository(t)
	h.server = httptest.NewServer(h)
	t.Cleanup(h.server.Close)
	h.url = h.server.URL + "/fleet.git"
	return h
}

func newRepository(t *testing.T) *host {
	t.Helper()
	root := t.TempDir()
	h := &host{repository: filepath.Join(root, "fleet.git")}
	git(t, root, "", "init", "-q", "--bare", "-b", "main", "fleet.git")
	backend := filepath.Join(strings.TrimSpace(git(t, root, "", "--exec-path")), "git-http-backend")
	h.handler = &cgi.Handler{Path: backend, Env: append(environment(), "GIT_PROJECT_ROOT="+root, "GIT_HTTP_EXPORT_ALL=1"), Logger: log.New(io.Discard, "", 0), Stderr: io.Discard}
	return h
}

func (h *host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if u, p, ok := r.BasicAuth(); (!ok || u != user || p != password) && r.Header.Get("Authorization") != "Bearer "+password {
		w.Header().Set("WWW-Authenticate", "Basic")
		http.Error(w, "no: "+r.Header.Get("Authorization"), http.StatusUnauthorized)
		return
	}
	if strings.HasSuffix(r.URL.Path, "/info/refs") {
		h.asked.Add(1)
	} else {
		h.packs.Add(1)
	}
	h.mu.Lock()
	handler := h.handler
	h.mu.Unlock()
	handler.ServeHTTP(w, r)
}

func environment() []string {
	return []string{"HOME=/nonexistent", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}
}

func git(t *testing.T, dir, input string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir, cmd.Stdin, cmd.Env = dir, strings.NewReader(input), environment()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}

// files maps the paths of a commit to their content. The prefix "-> " makes a symlink, "submodule" a submodule, and ""
// removes the path.
type files map[string]string

// commit adds a commit on a branch, below its tip.
func (h *host) commit(t *testing.T, branch string, f files) string {
	t.Helper()
	from := ""
	if _, err := os.Stat(filepath.Join(h.repository, "refs/heads", branch)); err == nil {
		from = "from refs/heads/" + branch + "^0\n"
	}
	return h.write(t, branch, from, f)
}

// orphan replaces a branch with a single commit without a history.
func (h *host) orphan(t *testing.T, branch string, f files) string {
	t.Helper()
	git(t, h.repository, "", "update-ref", "-d", "refs/heads/"+branch)
	return h.write(t, branch, "", f)
}

func (h *host) write(t *testing.T, branch, from string, f files) string {
	t.Helper()
	git(t, h.repository, h.stream(branch, from, f), "fast-import", "--quiet", "--force")
	return strings.TrimSpace(git(t, h.repository, "", "rev-parse", "refs/heads/"+branch))
}

// stream is a commit as git fast-import reads it.
func (h *host) stream(branch, from string, f files) string {
	var s strings.Builder
	h.clock++
	message := fmt.Sprintf("commit %d", h.clock)
	fmt.Fprintf(&s, "commit refs/heads/%s\ncommitter T <t@example.com> %d +0000\ndata %d\n%s\n%s", branch, 1700000000+h.clock, len(message), message, from)
	names := make([]string, 0, len(f))
	for name := range f {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		content := f[name]
		target, link := strings.CutPrefix(content, "-> ")
		switch {
		case content == "":
			fmt.Fprintf(&s, "D %s\n", name)
		case content == "submodule":
			fmt.Fprintf(&s, "M 160000 %s %s\n", strings.Repeat("1", 40), name)
		case link:
			fmt.Fprintf(&s, "M 120000 inline %s\ndata %d\n%s\n", name, len(target), target)
		default:
			fmt.Fprintf(&s, "M 100644 inline %s\ndata %d\n%s\n", name, len(content), content)
		}
	}
	return s.String()
}

// point sets a reference to a commit.
func (h *host) point(t *testing.T, ref, commit string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(h.repository, ref), []byte(commit+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}
