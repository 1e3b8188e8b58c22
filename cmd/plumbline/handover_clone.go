package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/plumbline-dev/plumbline/reconcile/handover"
)

// clone is a user's clone of a repository. It runs the user's own git, with its identity, hooks and credentials.
type clone struct{ root, branch, remote string }

// openClone returns the clone with its current branch, and the remote that it pushes to.
func openClone(ctx context.Context, folder string) (*clone, error) {
	c := &clone{root: folder}
	root, err := c.git(ctx, "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, fmt.Errorf("--repo %s is no clone of a repository: %w", folder, err)
	}
	c.root = root
	if c.branch, err = c.git(ctx, "symbolic-ref", "--short", "HEAD"); err != nil {
		return nil, fmt.Errorf("--repo %s has no branch checked out: run git switch BRANCH", folder)
	}
	if c.remote, err = c.git(ctx, "config", "branch."+c.branch+".remote"); err != nil {
		c.remote = "origin" // git's default
	}
	return c, nil
}

// git runs git in the clone, and returns what it prints.
func (c *clone) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.root, &out, &errs
	if err := cmd.Run(); err != nil {
		if text := strings.TrimSpace(errs.String()); text != "" {
			err = errors.New(text)
		}
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(out.String()), nil
}

// pull fast-forwards to what others have pushed. It never merges.
func (c *clone) pull(ctx context.Context) error {
	if _, err := c.git(ctx, "pull", "--quiet", "--ff-only", c.remote, c.branch); err != nil {
		return fmt.Errorf("bring %s up to date: %w", c.root, err)
	}
	return nil
}

// push pushes the branch, never by force. An interrupted run may have left a commit.
func (c *clone) push(ctx context.Context) error {
	if _, err := c.git(ctx, "push", "--quiet", c.remote, "HEAD:refs/heads/"+c.branch); err != nil {
		return fmt.Errorf("push %s to %s: %w", c.branch, c.remote, err)
	}
	return nil
}

// files returns the committed files of some folders; files other than YAML are empty.
func (c *clone) files(ctx context.Context, folders []string) (handover.Files, error) {
	found := handover.Files{}
	for _, folder := range folders {
		if !filepath.IsLocal(filepath.Clean(strings.TrimPrefix(folder, "/"))) {
			return nil, fmt.Errorf("the folder %s is not in a Git repository", folder)
		}
		folder = filepath.Clean(strings.TrimPrefix(folder, "/"))
		changed, err := c.git(ctx, "status", "--porcelain", "--", folder)
		if err != nil {
			return nil, err
		}
		if changed != "" {
			return nil, fmt.Errorf("%s has uncommitted changes below %s: commit or stash them first", c.root, folder)
		}
		names, err := c.git(ctx, "ls-files", "-z", "--", folder)
		if err != nil {
			return nil, err
		}
		for name := range strings.SplitSeq(names, "\x00") {
			if name == "" {
				continue
			}
			if found[name], err = c.read(name); err != nil {
				return nil, fmt.Errorf("read %s in %s: %w", folder, c.root, err)
			}
		}
	}
	return found, nil
}

// read returns the text of a file that matters; it is empty for any other, and for links.
func (c *clone) read(name string) ([]byte, error) {
	file := filepath.Join(c.root, filepath.FromSlash(name))
	info, err := os.Lstat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist): // a sparse checkout does not contain all files
		return []byte{}, nil
	case err != nil:
		return nil, err
	case info.Mode().IsRegular() && handover.Reads(name):
		return os.ReadFile(file)
	}
	return []byte{}, nil
}

// ahead returns the number of commits that are not pushed yet.
func (c *clone) ahead(ctx context.Context) int {
	for _, pushed := range []string{"refs/remotes/" + c.remote + "/" + c.branch, "@{upstream}"} {
		if count, err := c.git(ctx, "rev-list", "--count", pushed+"..HEAD"); err == nil {
			n, _ := strconv.Atoi(count) // git prints digits
			return n
		}
	}
	return 0
}

// unpushed returns a message if commits are not pushed yet; otherwise nothing.
func (c *clone) unpushed(ctx context.Context) []string {
	n := c.ahead(ctx)
	if n == 0 {
		return nil
	}
	return []string{fmt.Sprintf("Branch %s of %s is %s ahead of %s/%[1]s: push it, or merge it with a pull request, first:\n\n  git -C %[2]s push %[4]s %[1]s\n",
		c.branch, c.root, english.Plural(n, "commit", "commits"), c.remote)}
}

// commit writes the files that differ, and commits only those.
func (c *clone) commit(ctx context.Context, before, after handover.Files, message string) error {
	changed := before.Differing(after)
	for _, name := range changed {
		file := filepath.Join(c.root, filepath.FromSlash(name))
		text, stays := after[name]
		if !stays {
			if err := os.Remove(file); err != nil {
				return fmt.Errorf("edit %s: %w", file, err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return fmt.Errorf("edit %s: %w", file, err)
		}
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return fmt.Errorf("edit %s: %w", file, err)
		}
	}
	if _, err := c.git(ctx, append([]string{"add", "--all", "--"}, changed...)...); err != nil {
		return err
	}
	_, err := c.git(ctx, append([]string{"commit", "--quiet", "--message", message, "--"}, changed...)...)
	return err
}
