package stories_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"sigs.k8s.io/yaml"
)

// workflow is the part of a Gitea Actions workflow that scripts need.
type workflow struct {
	Env  map[string]string
	Jobs map[string]struct {
		Steps []struct {
			Name, Uses, Run string
		}
	}
}

// ciCommand is `ci FILE JOB [KEY=VALUE…]`.
func (s *story) ciCommand(ts *testscript.TestScript, args []string) error {
	if len(args) < 2 || s.pulled.branch == "" {
		return errors.New("usage: ci FILE JOB [KEY=VALUE…], after pull open|fork")
	}
	text, err := os.ReadFile(filepath.Join(s.root, "examples", "ci", args[0]))
	if err != nil {
		return err
	}
	var w workflow
	if err := yaml.Unmarshal(text, &w); err != nil {
		return err
	}
	checkout, err := os.MkdirTemp(ts.MkAbs("."), "checkout-")
	if err != nil {
		return err
	}
	// As in the runner: nothing of the machine's environment, and a home of its own.
	command := []string{"env", "--ignore-environment", "--chdir=" + checkout, "PATH=" + ts.Getenv("PATH"), "HOME=" + filepath.Join(checkout, ".home")}
	for key, value := range w.Env {
		command = append(command, key+"="+value)
	}
	command = append(command, args[2:]...)
	ran := 0
	for _, step := range w.Jobs[args[1]].Steps {
		if strings.HasPrefix(step.Uses, "actions/checkout@") {
			if _, err := s.repo.Git(s.ctx, "clone", "--quiet", "--branch", s.pulled.branch, s.pulledFrom(), checkout); err != nil {
				return err
			}
		}
		if step.Run == "" {
			continue
		}
		ran++
		script := slices.Concat(command[1:], []string{"bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step.Run})
		if err := ts.Exec(command[0], script...); err != nil {
			return fmt.Errorf("the step %q: %w", step.Name, err)
		}
	}
	if ran == 0 {
		return fmt.Errorf("%s has no job %s that runs something", args[0], args[1])
	}
	return nil
}

// pulledFrom returns the URL of the repository with the pull request's branch.
func (s *story) pulledFrom() string {
	if s.pulled.remote == "origin" {
		return s.repo.As(s.c.Git.Admin)
	}
	return s.pulled.remote
}
