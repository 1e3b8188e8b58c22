package stories_test

import (
	"errors"
	"fmt"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/plumbline-dev/plumbline/tests/sandbox/process"
)

// webhookCommand makes the Git host notify the daemon of pushes.
func (s *story) webhookCommand(ts *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: webhook TOKEN")
	}
	if ts.Getenv("WEBHOOK") == "" {
		ports, err := process.FreePorts(1)
		if err != nil {
			return err
		}
		ts.Setenv("WEBHOOK", fmt.Sprintf("127.0.0.1:%d", ports[0]))
	}
	return s.c.Git.AddWebhook(s.ctx, s.repo.Repository, "http://"+ts.Getenv("WEBHOOK")+"/hook", args[0])
}
