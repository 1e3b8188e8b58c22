package stories_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/rogpeppe/go-internal/testscript"
)

// rendered is what the daemon logs for each revision that it renders.
const rendered = `"msg":"rendered"`

// renders is how often the story's daemon has rendered.
func (s *story) renders() (int, error) {
	log, err := os.ReadFile(s.daemon.LogFile())
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil // it was never started
	}
	return bytes.Count(log, []byte(rendered)), err
}

func (s *story) rendersCommand(_ *testscript.TestScript, args []string) error {
	if len(args) != 2 || args[0] != "=" {
		return errors.New("usage: renders = N")
	}
	all, err := s.renders()
	if err != nil {
		return err
	}
	if got := fmt.Sprint(all - s.mark.renders); got != args[1] {
		return fmt.Errorf("renders of the daemon: got %s, want %s", got, args[1])
	}
	return nil
}
