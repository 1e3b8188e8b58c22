package stories_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/rogpeppe/go-internal/testscript"
)

// githostCommand is `githost stop|start|pause|cont`.
func (s *story) githostCommand(_ *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: githost stop|start|pause|cont")
	}
	switch args[0] {
	case "stop":
		return s.c.Git.Close()
	case "start":
		// It lives as long as the sandbox, not as long as the story.
		return s.c.Git.Restart(context.WithoutCancel(s.ctx))
	case "pause":
		return s.c.Git.Pause()
	case "cont":
		return s.c.Git.Continue()
	}
	return fmt.Errorf("the Git host cannot %q", args[0])
}
