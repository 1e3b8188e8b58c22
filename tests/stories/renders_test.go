package stories_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/rogpeppe/go-internal/testscript"
)

const (
	// The daemon logs rendered for each revision that it renders, and childEnded for each child process.
	rendered   = `"msg":"rendered"`
	childEnded = `"msg":"a child process has ended"`
)

// logs returns how often the story's daemon has logged something.
func (s *story) logs(what string) (int, error) {
	log, err := os.ReadFile(s.daemon.LogFile())
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil // it was never started
	}
	return bytes.Count(log, []byte(what)), err
}

func (s *story) rendersCommand(_ *testscript.TestScript, args []string) error {
	if len(args) != 2 || args[0] != "=" {
		return errors.New("usage: renders = N")
	}
	all, err := s.logs(rendered)
	if err != nil {
		return err
	}
	if got := fmt.Sprint(all - s.mark.renders); got != args[1] {
		return fmt.Errorf("renders of the daemon: got %s, want %s", got, args[1])
	}
	return nil
}

func (s *story) childrenCommand(_ *testscript.TestScript, args []string) error {
	if len(args) != 2 || args[0] != "=" {
		return errors.New("usage: children = N")
	}
	all, err := s.logs(childEnded)
	if err != nil {
		return err
	}
	if got := fmt.Sprint(all - s.mark.children); got != args[1] {
		return fmt.Errorf("child processes of the daemon: got %s, want %s", got, args[1])
	}
	return nil
}
