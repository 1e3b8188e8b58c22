package stories_test

import (
	"errors"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// namedCommand is `named NAME`.
func (s *story) namedCommand(ts *testscript.TestScript, args []string) error {
	said := strings.TrimSpace(ts.ReadFile("stdout"))
	if len(args) != 1 || said == "" {
		return errors.New("usage: named NAME, after a program that has printed something")
	}
	ts.Setenv(args[0], said)
	return nil
}
