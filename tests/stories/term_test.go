package stories_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// termCommand is `term POINT [FLAGS]`: it stops the daemon exactly when it reaches a point.
func (s *story) termCommand(_ *testscript.TestScript, args []string) error {
	if len(args) == 0 {
		return errors.New("usage: term POINT [FLAGS]")
	}
	file := s.traceFile()
	if err := os.RemoveAll(file); err != nil {
		return err
	}
	flags := append([]string{"--step-term=" + args[0], "--step-trace=" + file}, args[1:]...)
	if err := s.daemon.StartSteps(s.ctx, flags...); err != nil {
		return err
	}
	err := s.poll(played, func(context.Context) error {
		trace, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if reached := strings.Split(string(trace), "\n"); !slices.Contains(reached, args[0]) {
			return fmt.Errorf("the daemon did not come to %q, but to %q", args[0], reached)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.daemon.EndsWell()
}
