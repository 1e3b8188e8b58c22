package repository

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/plumbline-dev/plumbline/tests/sandbox/githost"
)

// Path is where git is installed.
const Path = "/usr/local/bin:/usr/bin:/bin"

// Repository is a repository on the Git host and its clone.
type Repository struct {
	githost.Repository
	// Clone is the folder of the clone, branch main.
	Clone string

	host *githost.Host
	env  []string
}

// Create creates an empty repository of the host's administrator, and its clone in a folder that may contain files
// already. home is a folder for git's configuration.
func Create(ctx context.Context, host *githost.Host, name, clone, home string) (*Repository, error) {
	made, err := host.CreateRepo(ctx, host.Admin.Name, name)
	if err != nil {
		return nil, err
	}
	env, err := host.ClientEnv(home, "")
	if err != nil {
		return nil, err
	}
	r := &Repository{Repository: made, Clone: clone, host: host, env: append(env, "PATH="+Path)}
	if err := os.MkdirAll(clone, 0o755); err != nil {
		return nil, fmt.Errorf("make the clone's folder: %w", err)
	}
	for _, args := range [][]string{
		{"init", "--quiet"},
		{"remote", "add", "origin", made.As(host.Admin)},
	} {
		if _, err := r.Git(ctx, args...); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Environment returns the variables that git needs to use the repository without a prompt.
func (r *Repository) Environment() []string { return r.env }

// Git runs git in the clone and returns what it printed.
func (r *Repository) Git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Env = r.Clone, r.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("git %s in %s: %w: %s", strings.Join(args, " "), r.Clone, err, bytes.TrimSpace(out))
	}
	return strings.TrimSpace(string(out)), nil
}

// Commit commits all changes in the clone and returns the commit.
func (r *Repository) Commit(ctx context.Context, message string) (commit string, err error) {
	for _, args := range [][]string{{"add", "--all"}, {"commit", "--quiet", "--message", message}} {
		if _, err := r.Git(ctx, args...); err != nil {
			return "", err
		}
	}
	return r.Head(ctx)
}

// Push commits all changes in the clone, pushes them and returns the commit.
func (r *Repository) Push(ctx context.Context, message string) (commit string, err error) {
	if commit, err = r.Commit(ctx, message); err != nil {
		return "", err
	}
	_, err = r.Git(ctx, "push", "--quiet", "origin", "HEAD:main")
	return commit, err
}

// Head returns the commit of the clone's HEAD.
func (r *Repository) Head(ctx context.Context) (string, error) {
	return r.Git(ctx, "rev-parse", "HEAD")
}

// Statuses returns all statuses ever set on a commit, the oldest first.
func (r *Repository) Statuses(ctx context.Context, commit string) ([]githost.Status, error) {
	return r.host.Statuses(ctx, r.Owner, r.Name, commit)
}

// API returns the repository's URL in Gitea's API.
func (r *Repository) API() string {
	host, _, _ := strings.Cut(r.HTTPURL, "/"+r.Owner+"/")
	return host + "/api/v1/repos/" + r.Owner + "/" + r.Name
}

// Page returns the URL of the repository for browsers.
func (r *Repository) Page() string { return strings.TrimSuffix(r.HTTPURL, ".git") }

// Write writes a file into the clone.
func (r *Repository) Write(name string, content []byte) error {
	path := filepath.Join(r.Clone, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make the folder of %s: %w", name, err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return fmt.Errorf("write %s into the clone: %w", name, err)
	}
	return nil
}

// Remove removes a file or folder from the clone, if it exists.
func (r *Repository) Remove(name string) error {
	if err := os.RemoveAll(filepath.Join(r.Clone, filepath.FromSlash(name))); err != nil {
		return fmt.Errorf("remove %s from the clone: %w", name, err)
	}
	return nil
}

// Read reads a file of the clone.
func (r *Repository) Read(name string) ([]byte, error) {
	content, err := os.ReadFile(filepath.Join(r.Clone, filepath.FromSlash(name)))
	if err != nil {
		return nil, fmt.Errorf("read %s in the clone: %w", name, err)
	}
	return content, nil
}
