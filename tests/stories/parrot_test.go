package stories_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/plumbline-dev/plumbline/tests/sandbox/process"
	"github.com/plumbline-dev/plumbline/tests/stories/parrot"
)

// parrotCommand is `parrot`, `parrot heard SECRET` and `parrot heard nothing`.
func (s *story) parrotCommand(ts *testscript.TestScript, args []string) error {
	if s.parrot == nil {
		s.parrot = parrot.New()
		s.t.Cleanup(s.parrot.Close)
		ports, err := process.FreePorts(2)
		if err != nil {
			return err
		}
		ts.Setenv("PARROT", s.parrot.Host())
		ts.Setenv("CHARTS", s.c.Charts.Repository)
		ts.Setenv("METRICS", fmt.Sprintf("127.0.0.1:%d", ports[0]))
		ts.Setenv("PROFILES", fmt.Sprintf("127.0.0.1:%d", ports[1]))
	}
	switch {
	case len(args) == 0:
		return nil
	case len(args) == 2 && args[0] == "heard" && args[1] == "nothing":
		if n := s.parrot.Asked(); n > 0 {
			return fmt.Errorf("the parrot was asked %d times, and sent %d credentials", n, len(s.parrot.Heard()))
		}
		return nil
	case len(args) == 2 && args[0] == "heard":
		return s.poll(defaultWait, func(context.Context) error {
			if !slices.ContainsFunc(s.parrot.Heard(), func(heard string) bool { return strings.Contains(heard, args[1]) }) {
				return errors.New("the parrot was not sent it")
			}
			return nil
		})
	}
	return errors.New("usage: parrot [heard SECRET|nothing]")
}
