package stories_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"
)

// pulled is the pull request that a story speaks of.
type pulled struct {
	number int
	branch string
	// remote is where its branch is pushed.
	remote string
}

// pullCommand is `pull open|fork BRANCH`, `pull push|close` and `pull comments N [~ REGEX]`.
func (s *story) pullCommand(ts *testscript.TestScript, args []string) error {
	timeout, args, pattern, err := options(args)
	if err != nil || len(args) == 0 {
		return errors.Join(errors.New("usage: pull open|fork BRANCH, pull push|close, pull comments N [~ REGEX]"), err)
	}
	git := s.c.Git
	switch args[0] {
	case "open", "fork":
		if len(args) != 2 {
			return errors.New("usage: pull open|fork BRANCH")
		}
		if err := s.openPull(args[0] == "fork", args[1]); err != nil {
			return err
		}
		ts.Setenv("PULL", strconv.Itoa(s.pulled.number))
		return nil
	case "push":
		return s.pushBranch()
	case "close":
		return git.ClosePullRequest(s.ctx, s.repo.Repository, s.pulled.number)
	case "comments":
		return s.poll(timeout, func(ctx context.Context) error {
			found, err := git.Comments(ctx, s.repo.Repository, s.pulled.number)
			if err != nil {
				return err
			}
			if len(args) != 2 || fmt.Sprint(len(found)) != args[1] {
				return fmt.Errorf("%d comments: %v", len(found), found)
			}
			if last := len(found) - 1; pattern != nil && !pattern.MatchString(found[last].Body) {
				return fmt.Errorf("the comment is %q", found[last].Body)
			}
			return nil
		})
	}
	return fmt.Errorf("a pull request cannot %q", args[0])
}

func (s *story) openPull(fork bool, branch string) error {
	as, head := s.c.Git.Admin, branch
	s.pulled = pulled{branch: branch, remote: "origin"}
	if fork {
		var err error
		if as, err = s.c.Git.CreateUser(s.ctx, "stranger-"+s.repo.Name); err != nil {
			return err
		}
		theirs, err := s.c.Git.Fork(s.ctx, as, s.repo.Repository)
		if err != nil {
			return err
		}
		s.pulled.remote, head = theirs.As(as), as.Name+":"+branch
	}
	if _, err := s.repo.Git(s.ctx, "checkout", "--quiet", "-B", branch); err != nil {
		return err
	}
	if err := s.pushBranch(); err != nil {
		return err
	}
	made, err := s.c.Git.OpenPullRequestAs(s.ctx, as, s.repo.Repository, "a change on "+branch, head, "main")
	s.pulled.number = made.Number
	return err
}

// pushBranch commits what changed and pushes it, over what there is.
func (s *story) pushBranch() error {
	if _, err := s.repo.Commit(s.ctx, "on "+s.pulled.branch); err != nil {
		return err
	}
	_, err := s.repo.Git(s.ctx, "push", "--quiet", "--force", s.pulled.remote, "HEAD:refs/heads/"+s.pulled.branch)
	return err
}
