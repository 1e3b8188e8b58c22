package stories_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
)

// actionsUsage is the usage of actionsCommand.
const actionsUsage = "usage: actions run FILE KEY=VALUE…, actions [-t D] success|failure [~ REGEX] after pull open"

// actionsCommand implements actionsUsage: it makes Gitea run a pipeline of examples/ci, and waits for the result of its
// job on the branch of the pull request.
func (s *story) actionsCommand(ts *testscript.TestScript, args []string) error {
	timeout, args, pattern, err := options(args)
	if err != nil || len(args) == 0 {
		return errors.Join(errors.New(actionsUsage), err)
	}
	if args[0] == "run" && len(args) > 1 {
		if err := s.addWorkflow(args[1], args[2:]); err != nil {
			return err
		}
		return s.startRunner(ts)
	}
	if len(args) != 1 || s.pulled.branch == "" {
		return errors.New(actionsUsage)
	}
	commit, err := s.repo.Git(s.ctx, "rev-parse", s.pulled.branch)
	if err != nil {
		return err
	}
	return s.poll(timeout, func(ctx context.Context) error { return s.jobEnded(ctx, ts, commit, args[0], pattern) })
}

// addWorkflow copies a pipeline into the repository, with the folder of FOLDER and other values for the variables at
// its top, as a user does.
func (s *story) addWorkflow(file string, settings []string) error {
	read, err := os.ReadFile(filepath.Join(s.root, "examples", "ci", file))
	if err != nil {
		return err
	}
	text := string(read)
	for _, setting := range settings {
		key, value, _ := strings.Cut(setting, "=")
		at := regexp.MustCompile(`(?m)^  ` + regexp.QuoteMeta(key) + `: (.*)$`)
		before := at.FindStringSubmatch(text)
		if before == nil {
			return fmt.Errorf("%s sets no %s", file, key)
		}
		text = at.ReplaceAllLiteralString(text, "  "+key+": "+value)
		if key == "FOLDER" {
			text = strings.Replace(text, `["`+before[1]+`/**"]`, `["`+strings.TrimPrefix(value+"/**", "./")+`"]`, 1)
		}
	}
	return s.repo.Write(".gitea/workflows/plumbline-plan.yaml", []byte(text))
}

// startRunner starts a runner of the repository's Actions, until the story ends. Of the machine's environment, it only
// gets the path of programs, which include plumbline.
func (s *story) startRunner(ts *testscript.TestScript) error {
	builder, err := binaries.Here(s.t.Output())
	if err != nil {
		return err
	}
	built, err := builder.Build(s.ctx, binaries.ActRunner)
	if err != nil {
		return err
	}
	token, err := s.c.Git.RunnerToken(s.ctx, s.repo.Repository)
	if err != nil {
		return err
	}
	dir := filepath.Join(s.dir, "runner")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(dir, "runner.log"))
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(s.ctx)
	runner := exec.CommandContext(ctx, built[binaries.ActRunner], "--url", s.c.Git.URL, "--token", token, "--dir", dir)
	runner.Env = []string{"PATH=" + ts.Getenv("PATH"), "HOME=" + dir}
	runner.Stdout, runner.Stderr = log, log
	if err := runner.Start(); err != nil {
		stop()
		return errors.Join(err, log.Close())
	}
	s.t.Cleanup(func() {
		stop()
		_ = runner.Wait() // it was killed
		_ = log.Close()
	})
	return nil
}

// jobEnded returns an error unless the job of a commit has this result, a commit status shows it, and the job's log
// matches.
func (s *story) jobEnded(ctx context.Context, ts *testscript.TestScript, commit, how string, pattern *regexp.Regexp) error {
	jobs, err := s.c.Git.Jobs(ctx, s.repo.Repository, commit)
	if err != nil {
		return err
	}
	if len(jobs) != 1 || jobs[0].Status != "completed" {
		return fmt.Errorf("jobs of commit %s: %+v", commit, jobs)
	}
	text, err := s.c.Git.JobLog(ctx, s.repo.Repository, jobs[0].ID)
	if err != nil {
		return err
	}
	if jobs[0].Conclusion != how || pattern != nil && !pattern.MatchString(text) {
		return fmt.Errorf("job %s of commit %s: %s, and its log is\n%s", jobs[0].Name, commit, jobs[0].Conclusion, text)
	}
	all, err := s.repo.Statuses(ctx, commit)
	if err != nil {
		return err
	}
	const subject = "plumbline plan / plan (pull_request)"
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Context == subject {
			if all[i].State != how {
				return fmt.Errorf("the status %s of commit %s is %s: %s", subject, commit, all[i].State, all[i].Description)
			}
			ts.Logf("%s", text)
			return nil
		}
	}
	return fmt.Errorf("commit %s has no status %s: %+v", commit, subject, all)
}
