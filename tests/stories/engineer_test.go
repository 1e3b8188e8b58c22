package stories_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
	"github.com/plumbline-dev/plumbline/tests/stories/nodesync"
)

// Commands for what the platform engineer does: files, pushes, NodeSyncs, the daemon.

const seedDir = "testdata/basic"

func (s *story) seedCommand(_ *testscript.TestScript, args []string) error {
	folder := ""
	if len(args) > 0 {
		folder = args[0]
	}
	return filepath.WalkDir(seedDir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(seedDir, path)
		if err != nil {
			return err
		}
		return s.repo.Write(filepath.Join(folder, name), []byte(s.expand(string(data))))
	})
}

func (s *story) editCommand(_ *testscript.TestScript, args []string) error {
	if len(args) != 3 {
		return errors.New("usage: edit FILE OLD NEW")
	}
	data, err := os.ReadFile(filepath.Join(s.repo.Clone, args[0]))
	if err != nil {
		return err
	}
	if n := strings.Count(string(data), args[1]); n != 1 {
		return fmt.Errorf("%q is in %s %d times, want once", args[1], args[0], n)
	}
	return s.repo.Write(args[0], []byte(strings.Replace(string(data), args[1], args[2], 1)))
}

func (s *story) pushCommand(ts *testscript.TestScript, args []string) error {
	if len(args) != 1 {
		return errors.New("usage: push MESSAGE")
	}
	commit, err := s.repo.Push(s.ctx, args[0])
	ts.Logf("%.1fs into the story: commit %s", time.Since(s.began).Seconds(), commit)
	return err
}

// pushesCommand is `pushes N OLD NEW FILE…`.
func (s *story) pushesCommand(ts *testscript.TestScript, args []string) error {
	if len(args) < 4 {
		return errors.New("usage: pushes N OLD NEW FILE…")
	}
	times, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	began := time.Now()
	old := args[1]
	for i := range times {
		replacement := fmt.Sprintf(args[2], i+1)
		for _, file := range args[3:] {
			if err := s.editCommand(ts, []string{file, old, replacement}); err != nil {
				return err
			}
		}
		if _, err := s.repo.Push(s.ctx, fmt.Sprintf("%s, number %d", replacement, i+1)); err != nil {
			return err
		}
		old = replacement
	}
	ts.Logf("%d pushes in %.1fs", times, time.Since(began).Seconds())
	return nil
}

func (s *story) daemonCommand(ts *testscript.TestScript, args []string) error {
	d, replica := s.daemon, 0
	if len(args) > 0 && args[0] == "other" {
		d, replica, args = s.other(), 1, args[1:]
	}
	if len(args) == 0 {
		return errors.New("usage: daemon [other] start|deploy|pod|limited|cramped|stop|kill|pause|cont|ends|forget [FLAGS]")
	}
	switch args[0] {
	case "start":
		return d.Start(s.ctx, args[1:]...)
	case "deploy":
		return d.StartDeployed(s.ctx, replica)
	case "pod":
		return s.runPod(ts, d, args[1:])
	case "limited":
		return d.StartLimited(s.ctx, args[1:]...)
	case "cramped":
		return d.StartCramped(s.ctx, args[1:]...)
	case "stop":
		return d.Stop()
	case "kill":
		return d.Kill()
	case "pause":
		return d.Pause()
	case "cont":
		return d.Continue()
	case "ends":
		ctx, cancel := context.WithTimeout(s.ctx, defaultWait)
		defer cancel()
		return d.Ended(ctx)
	case "forget":
		return d.Forget()
	}
	return fmt.Errorf("the daemon cannot %q", args[0])
}

// runPod is `daemon pod FILE PATTERN`.
func (s *story) runPod(ts *testscript.TestScript, d *daemon.Daemon, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: daemon pod FILE PATTERN")
	}
	wanted, err := regexp.Compile(args[1])
	if err != nil {
		return err
	}
	out, err := d.RunPod(s.ctx, []byte(ts.ReadFile(args[0])))
	if err == nil && !wanted.MatchString(out) {
		err = fmt.Errorf("the pod prints %q", out)
	}
	return err
}

func (s *story) nodesyncCommand(_ *testscript.TestScript, args []string) error {
	if len(args) == 0 {
		return errors.New("usage: nodesync NAME [FIELD=VALUE…]")
	}
	given, err := settingsOf(args[1:])
	if err != nil {
		return err
	}
	name := args[0]
	if s.settings[name] == nil {
		// Few stories test the pace of a removal.
		s.settings[name] = map[string]string{"removal.maxUnavailable": "100%"}
		s.syncs = append(s.syncs, name)
	}
	maps.Copy(s.settings[name], given)
	manifest, err := nodesync.Manifest(nodesync.Options{
		Name: name, Namespace: daemon.Namespace, Repository: s.repo, User: s.c.Git.Admin,
		Charts: s.c.Charts.Repository, Settings: s.settings[name],
	})
	if err != nil {
		return err
	}
	return s.apply(manifest)
}

// apply runs kubectl apply as the administrator.
func (s *story) apply(manifest []byte) error {
	cmd := exec.CommandContext(s.ctx, filepath.Join(s.c.Bin(), "kubectl"), "apply", "--server-side", "--force-conflicts", "--field-manager=engineer", "-f", "-")
	cmd.Env, cmd.Stdin = s.c.Environment(), strings.NewReader(string(manifest))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl apply: %w: %s", err, out)
	}
	return nil
}

// finishCommand deletes everything, as a user would.
func (s *story) finishCommand(ts *testscript.TestScript, _ []string) error {
	for _, name := range slices.Clone(s.workloads) {
		if err := s.removeWorkload(name); err != nil {
			return err
		}
	}
	var leaving []string
	for _, name := range s.syncs {
		if _, err := s.program(s.ctx, "kubectl", "get", "nodesync", name); err != nil {
			continue // the story has deleted it
		}
		leaving = append(leaving, name)
		err := errors.Join(
			s.must("kubectl", "patch", "nodesync", name, "--type=merge", "-p", `{"spec":{"onDelete":"Drain","suspend":false}}`),
			s.must("kubectl", "delete", "nodesync", name, "--wait=false"),
		)
		if err != nil {
			return err
		}
	}
	// One may wait for objects of another.
	for _, name := range leaving {
		if err := s.awaitCommand(ts, []string{"-t", "90s", "gone", "nodesync/" + name}); err != nil {
			return err
		}
	}
	if s.daemon.Running() {
		return s.daemon.Stop()
	}
	return nil
}

func (s *story) must(name string, args ...string) error {
	if out, err := s.program(s.ctx, name, args...); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
