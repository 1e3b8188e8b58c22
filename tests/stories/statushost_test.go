package stories_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/plumbline-dev/plumbline/tests/stories/gitproxy"
)

// statusHostCommand is `statushost up|down|CODE|posted COMMIT STATE…`.
func (s *story) statusHostCommand(ts *testscript.TestScript, args []string) error {
	if len(args) == 0 {
		return errors.New("usage: statushost up|down|CODE|posted COMMIT STATE…")
	}
	if err := s.openStatusHost(ts); err != nil {
		return err
	}
	switch args[0] {
	case "up":
		s.statusHost.Answer(gitproxy.Up)
	case "down":
		s.statusHost.Answer(gitproxy.Down)
	case "posted":
		return s.posted(args[1:])
	default:
		code, err := strconv.Atoi(args[0])
		if err != nil {
			return fmt.Errorf("a Git host cannot be %q", args[0])
		}
		s.statusHost.Answer(code)
	}
	return nil
}

// openStatusHost starts the proxy, once, and sets its address in the script.
func (s *story) openStatusHost(ts *testscript.TestScript) error {
	if s.statusHost != nil {
		return nil
	}
	page, err := url.Parse(s.repo.Page())
	if err != nil {
		return err
	}
	if s.statusHost, err = gitproxy.New(page.Scheme + "://" + page.Host); err != nil {
		return err
	}
	s.t.Cleanup(s.statusHost.Close)
	ts.Setenv("STATUS_URL", s.statusHost.URL()+page.Path)
	return nil
}

// posted waits until the Git host has accepted exactly these states for a commit.
func (s *story) posted(args []string) error {
	if len(args) == 0 {
		return errors.New("usage: statushost posted COMMIT STATE…")
	}
	commit, err := s.repo.Git(s.ctx, "rev-parse", args[0])
	if err != nil {
		return err
	}
	return s.poll(defaultWait, func(context.Context) error {
		if got, want := strings.Join(s.statusHost.Posted(commit), " "), strings.Join(args[1:], " "); got != want {
			return fmt.Errorf("for %s the Git host took %q, want %q", args[0], got, want)
		}
		return nil
	})
}
