package stories_test

import (
	"errors"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
)

// Commands for two daemons, one of which leads.

// other returns the second daemon.
func (s *story) other() *daemon.Daemon {
	if s.second == nil {
		s.second = daemon.New(daemon.Options{Kube: s.c.Kube, AWS: s.c.AWSVariables(), Root: s.root, Dir: filepath.Join(s.dir, "other"), Guarded: true})
	}
	return s.second
}

func (s *story) leadsCommand(_ *testscript.TestScript, args []string) error {
	timeout, args, _, err := options(args)
	if err != nil {
		return err
	}
	d := s.daemon
	switch {
	case len(args) == 1 && args[0] == "other":
		d = s.other()
	case len(args) > 0:
		return errors.New("usage: leads [-t D] [other]")
	}
	return s.poll(timeout, d.Leads)
}
