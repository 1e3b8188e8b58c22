package stories_test

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
	"github.com/plumbline-dev/plumbline/tests/terraform"
)

// terraformCommand is `terraform take FILE|FOLDER…` and `terraform ARGS`.
func (s *story) terraformCommand(ts *testscript.TestScript, args []string) error {
	if len(args) == 0 {
		return errors.New("usage: terraform take FILE|FOLDER…, terraform ARGS")
	}
	if s.terraform == nil {
		builder, err := binaries.Here(s.t.Output())
		if err != nil {
			return err
		}
		if s.terraform, err = terraform.NewRoot(s.ctx, builder, ts.MkAbs("terraform")); err != nil {
			return err
		}
		for _, variable := range s.terraform.Environment {
			key, value, _ := strings.Cut(variable, "=")
			ts.Setenv(key, value)
		}
		ts.Setenv("TERRAFORM", s.terraform.Program)
	}
	if args[0] != "take" {
		return ts.Exec(s.terraform.Program, append([]string{"-chdir=" + s.terraform.Dir}, args...)...)
	}
	for _, file := range args[1:] {
		if err := s.terraform.Take(filepath.Join(s.root, "examples", "terraform", file)); err != nil {
			return err
		}
	}
	return nil
}
