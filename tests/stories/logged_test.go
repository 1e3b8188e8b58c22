package stories_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/rogpeppe/go-internal/testscript"
)

// loggedCommand waits for a line of the daemon's log.
func (s *story) loggedCommand(_ *testscript.TestScript, args []string) error {
	timeout, rest, pattern, err := options(args)
	if err != nil {
		return err
	}
	if len(rest) > 0 || pattern == nil {
		return errors.New("usage: logged [-t D] ~ REGEX")
	}
	return s.poll(timeout, func(context.Context) error {
		log, err := os.ReadFile(s.daemon.LogFile())
		if err == nil && !pattern.Match(log) {
			err = fmt.Errorf("the daemon has not logged %q", pattern)
		}
		return err
	})
}
