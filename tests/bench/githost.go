package bench

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/plumbline-dev/plumbline/tests/sandbox/githost"
	"github.com/plumbline-dev/plumbline/tests/stories/repository"
)

const (
	repositoryPath = "acme/fleet.git"
	branch         = "main"
)

// gitHost serves one repository with git's own http-backend, and accepts commit statuses like Gitea.
type gitHost struct {
	// repo is the engineer's clone.
	repo *repository.Repository
	url  string
	root string
	// statuses counts the posted commit statuses, fetched the requested packs.
	statuses, fetched atomic.Int64
}

func (g *ground) startGit(ctx context.Context) error {
	h := &gitHost{root: g.path("git")}
	bare := filepath.Join(h.root, repositoryPath)
	if err := os.MkdirAll(bare, 0o700); err != nil {
		return fmt.Errorf("make the repository's folder: %w", err)
	}
	at := &repository.Repository{Clone: bare}
	for _, args := range [][]string{
		{"init", "--quiet", "--bare", "--initial-branch=" + branch},
		{"config", "http.receivepack", "true"},
		{"config", "gc.auto", "0"},
		{"config", "receive.autogc", "false"},
	} {
		if _, err := at.Git(ctx, args...); err != nil {
			return err
		}
	}
	handler, err := h.handler(ctx)
	if err != nil {
		return err
	}
	base, err := g.serve(ctx, handler)
	if err != nil {
		return err
	}
	h.url = base + "/" + repositoryPath
	h.repo, err = h.clone(ctx, g.path("clone"))
	g.host = h
	return err
}

func (h *gitHost) handler(ctx context.Context) (http.Handler, error) {
	where, err := exec.CommandContext(ctx, "git", "--exec-path").Output()
	if err != nil {
		return nil, fmt.Errorf("ask git where its http-backend is: %w", err)
	}
	backend := &cgi.Handler{
		Path: filepath.Join(string(bytes.TrimSpace(where)), "git-http-backend"),
		Env: []string{
			"GIT_PROJECT_ROOT=" + h.root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=bench", "HOME=" + h.root,
			"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull,
		},
	}
	routes := http.NewServeMux()
	routes.Handle("/", backend)
	routes.HandleFunc("POST /"+repositoryPath+"/git-upload-pack", func(w http.ResponseWriter, r *http.Request) {
		h.fetched.Add(1)
		backend.ServeHTTP(w, r)
	})
	routes.HandleFunc("POST /api/v1/repos/{owner}/{name}/statuses/{commit}", func(w http.ResponseWriter, _ *http.Request) {
		h.statuses.Add(1)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte("{}")) // if it cannot be written, the daemon has exited
	})
	return routes, nil
}

// clone creates a clone that pushes and fetches without a proxy and with only its own settings.
func (h *gitHost) clone(ctx context.Context, dir string) (*repository.Repository, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make a clone's folder: %w", err)
	}
	r := &repository.Repository{Repository: githost.Repository{HTTPURL: h.url}, Clone: dir}
	for _, args := range [][]string{
		{"init", "--quiet", "--initial-branch=" + branch},
		{"config", "user.name", "bench"},
		{"config", "user.email", "bench@example.com"},
		{"config", "commit.gpgsign", "false"},
		{"config", "gc.auto", "0"},
		{"config", "maintenance.auto", "false"},
		{"config", "http.proxy", ""},
		{"config", "http.postBuffer", "100000000"}, // CGI does not support chunked requests
		{"remote", "add", "origin", h.url},
	} {
		if _, err := r.Git(ctx, args...); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// push commits the changes in the clone, pushes them, and calls notify as soon as the push has returned.
func (h *gitHost) push(ctx context.Context, notify func(ctx context.Context, commit string) error) (pushed, error) {
	var p pushed
	for _, args := range [][]string{
		{"add", "--all"},
		{"commit", "--quiet", "--allow-empty", "--message", "a change"},
	} {
		if _, err := h.repo.Git(ctx, args...); err != nil {
			return p, err
		}
	}
	var err error
	if p.commit, err = h.repo.Head(ctx); err != nil {
		return p, err
	}
	if _, err := h.repo.Git(ctx, "push", "--quiet", "origin", "HEAD:"+branch); err != nil {
		return p, err
	}
	if err := notify(ctx, p.commit); err != nil {
		return p, err
	}
	info, err := os.Stat(filepath.Join(h.root, repositoryPath, "refs", "heads", branch))
	if err != nil {
		return p, fmt.Errorf("see when the branch moved on the server: %w", err)
	}
	p.at = info.ModTime()
	return p, nil
}

// nobody is the notification for a push without a follower.
func nobody(context.Context, string) error { return nil }

// pushed is a commit and when the server's branch moved to it.
type pushed struct {
	commit string
	at     time.Time
}

// rawClones is the number of raw fetches of one push; the median counts.
const rawClones = 3

// fetches are clones that follow the repository only with git.
type fetches []*repository.Repository

// openFetches creates clones that have not fetched anything.
func (b *bench) openFetches(ctx context.Context) error {
	for i := range rawClones {
		clone, err := b.host.clone(ctx, b.path(fmt.Sprintf("fetches/%d", i)))
		if err != nil {
			return err
		}
		b.fetches = append(b.fetches, clone)
	}
	return nil
}

// measure fetches the branch's tip into each clone, and returns the median time.
func (f fetches) measure(ctx context.Context, args ...string) (time.Duration, error) {
	var times []time.Duration
	for _, clone := range f {
		began := time.Now()
		if _, err := clone.Git(ctx, strings.Fields("fetch --quiet "+strings.Join(args, " ")+" origin "+branch)...); err != nil {
			return 0, err
		}
		times = append(times, time.Since(began))
	}
	return median(times), nil
}
