package stories_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/plumbline-dev/plumbline/tests/sandbox/githost"
)

// pulled is the current pull request of a story.
type pulled struct {
	number int
	branch string
	// remote is the remote of its branch.
	remote string
}

// pullUsage is the usage of pullCommand.
const pullUsage = "usage: pull open BRANCH, pull fork BRANCH [USER], pull push|close|merge, pull before BRANCH OTHER… ~ REGEX, pull comments N [~ REGEX], pull proposed N [~ REGEX]"

// pullCommand implements pullUsage.
func (s *story) pullCommand(ts *testscript.TestScript, args []string) error {
	timeout, args, pattern, err := options(args)
	if err != nil || len(args) == 0 {
		return errors.Join(errors.New(pullUsage), err)
	}
	git := s.c.Git
	switch args[0] {
	case "open", "fork":
		user := ""
		if args[0] == "fork" {
			user = "stranger-" + s.repo.Name
		}
		if len(args) == 3 && user != "" {
			user, args = args[2]+"-"+s.repo.Name, args[:2]
		}
		if len(args) != 2 {
			return errors.New(pullUsage)
		}
		if err := s.openPull(user, args[1]); err != nil {
			return err
		}
		ts.Setenv("PULL", strconv.Itoa(s.pulled.number))
		return nil
	case "push":
		return s.pushBranch()
	case "close":
		return git.ClosePullRequest(s.ctx, s.repo.Repository, s.pulled.number)
	case "merge":
		if err := git.MergePullRequest(s.ctx, s.repo.Repository, s.pulled.number); err != nil {
			return err
		}
		_, err := s.repo.Git(s.ctx, "pull", "--quiet", "--ff-only", "origin", "main")
		return err
	case "before":
		if len(args) < 3 || pattern == nil {
			return errors.New(pullUsage)
		}
		return s.poll(timeout, func(ctx context.Context) error { return s.plannedBefore(ctx, args[1], args[2:], pattern) })
	case "proposed":
		return s.poll(timeout, func(ctx context.Context) error { return s.proposed(ctx, ts, args[1:], pattern) })
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

// proposed finds the pull requests that the daemon has opened: their number, and the newest one matching by its title
// and body.
func (s *story) proposed(ctx context.Context, ts *testscript.TestScript, args []string, pattern *regexp.Regexp) error {
	all, err := s.c.Git.PullRequests(ctx, s.repo.Repository)
	if err != nil {
		return err
	}
	found := slices.DeleteFunc(all, func(p githost.PullRequest) bool { return !strings.HasPrefix(p.Head.Branch, "plumbline/") })
	if len(args) != 1 || fmt.Sprint(len(found)) != args[0] {
		return fmt.Errorf("%d pull requests of the daemon: %+v", len(found), found)
	}
	if len(found) == 0 {
		return nil
	}
	if text := found[0].Title + "\n" + found[0].Body; pattern != nil && !pattern.MatchString(text) {
		return fmt.Errorf("it says %q", text)
	}
	s.pulled = pulled{number: found[0].Number, branch: found[0].Head.Branch, remote: "origin"}
	ts.Setenv("PULL", strconv.Itoa(s.pulled.number))
	ts.Setenv("PULL_URL", found[0].URL)
	return nil
}

// plannedBefore checks that the daemon commented on the pull request of a branch, with a text that matches, before it
// did so on those of other branches, and that it has commented on one of these. It writes a comment directly after each
// plan, and the Git host's comment IDs ascend; statuses are posted in the background, in another order.
func (s *story) plannedBefore(ctx context.Context, branch string, others []string, pattern *regexp.Regexp) error {
	all, err := s.c.Git.PullRequests(ctx, s.repo.Repository)
	if err != nil {
		return err
	}
	first := map[string]int64{}
	for _, pull := range all {
		comments, err := s.c.Git.Comments(ctx, s.repo.Repository, pull.Number)
		if err != nil {
			return err
		}
		_, of, fork := strings.Cut(pull.Head.Branch, ":")
		if !fork {
			of = pull.Head.Branch
		}
		if i := slices.IndexFunc(comments, func(c githost.Comment) bool { return pattern.MatchString(c.Body) }); i >= 0 {
			first[of] = comments[i].ID
		}
	}
	own, planned := first[branch]
	if !planned || !slices.ContainsFunc(others, func(other string) bool { return first[other] > 0 }) {
		return fmt.Errorf("no comment on %s, or on none of %v: %v", branch, others, first)
	}
	for _, other := range others {
		if id, planned := first[other]; planned && id < own {
			return fmt.Errorf("%s was planned before %s", other, branch)
		}
	}
	return nil
}

// openPull opens a pull request for a branch, of the repository or, if a user is given, of their fork.
func (s *story) openPull(user, branch string) error {
	as, head := s.c.Git.Admin, branch
	s.pulled = pulled{branch: branch, remote: "origin"}
	if user != "" {
		var err error
		if as, err = s.c.Git.CreateUser(s.ctx, user); err != nil {
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

// pushBranch commits the changes and force-pushes them.
func (s *story) pushBranch() error {
	if _, err := s.repo.Commit(s.ctx, "on "+s.pulled.branch); err != nil {
		return err
	}
	_, err := s.repo.Git(s.ctx, "push", "--quiet", "--force", s.pulled.remote, "HEAD:refs/heads/"+s.pulled.branch)
	return err
}
