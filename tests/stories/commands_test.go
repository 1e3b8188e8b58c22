package stories_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
)

const (
	// pollEvery is the interval for checking a condition.
	pollEvery = 150 * time.Millisecond
	// defaultWait is how long a command waits without -t.
	defaultWait = 30 * time.Second
)

// errNotYet is returned by a wait that times out, joined with what is missing.
var errNotYet = errors.New("not so in time")

// commands are those that doc.go documents.
func commands() map[string]func(*testscript.TestScript, bool, []string) {
	all := map[string]func(*story, *testscript.TestScript, []string) error{
		"seed": (*story).seedCommand, "edit": (*story).editCommand, "push": (*story).pushCommand,
		"exits": (*story).exitsCommand, "expect": (*story).expectCommand,
		"daemon": (*story).daemonCommand, "killed": (*story).killedCommand, "term": (*story).termCommand, "nodesync": (*story).nodesyncCommand, "deploykey": (*story).deployKeyCommand,
		"githost": (*story).githostCommand,
		"await":   (*story).awaitCommand, "removal": (*story).removalCommand, "events": (*story).eventsCommand, "status": (*story).statusCommand,
		"workload": (*story).workloadCommand, "available": (*story).availableCommand, "ec2": (*story).ec2Command, "volumes": (*story).volumesCommand,
		"kubelet": (*story).kubeletCommand,
		"mark":    (*story).markCommand, "writes": (*story).writesCommand, "renders": (*story).rendersCommand, "children": (*story).childrenCommand, "deletes": (*story).deletesCommand, "calls": (*story).callsCommand, "fault": (*story).faultCommand,
		"answers": (*story).answersCommand, "zone": (*story).zoneCommand, "eks": (*story).eksCommand,
		"capacity": (*story).capacityCommand, "account": (*story).accountCommand, "elsewhere": (*story).elsewhereCommand, "rival": (*story).rivalCommand, "registry": (*story).registryCommand,
		"finish": (*story).finishCommand, "statushost": (*story).statusHostCommand, "statuses": (*story).statusesCommand,
		"pull": (*story).pullCommand, "webhook": (*story).webhookCommand, "logged": (*story).loggedCommand,
		"api": (*story).apiCommand, "rbac": (*story).rbacCommand, "token": (*story).tokenCommand, "admission": (*story).admissionCommand, "leads": (*story).leadsCommand,
		"pushes": (*story).pushesCommand, "release": (*story).releaseCommand,
		"karpenter": (*story).karpenterCommand, "crds-by-kubectl": (*story).crdsByKubectlCommand,
		"terraform": (*story).terraformCommand,
		"upstream":  (*story).upstreamCommand, "userdata": (*story).userdataCommand,
		"signer": (*story).signerCommand, "sign": (*story).signCommand, "signers": (*story).signersCommand,
		"sops": (*story).sopsCommand, "ringkey": (*story).ringKeyCommand, "on": (*story).onCommand,
		"upgraded": (*story).upgradedCommand,
		"parrot":   (*story).parrotCommand, "unsaid": (*story).unsaidCommand,
		"bomb": (*story).bombCommand, "memory": (*story).memoryCommand, "metrics": (*story).metricsCommand,
		"page": (*story).pageCommand, "named": (*story).namedCommand, "prometheus": (*story).prometheusCommand,
		"browse": (*story).browseCommand, "ci": (*story).ciCommand, "actions": (*story).actionsCommand, "receiver": (*story).receiverCommand,
		"contexts": (*story).contextsCommand,
		"quiet":    (*story).quietCommand,
		"aws":      (*story).awsCommand, "flux": peerCommand("flux"), "helm-controller": peerCommand("helm-controller"), "argocd": peerCommand("argocd"),
		"notification-controller": peerCommand("notification-controller"), "argocd-notifications": peerCommand("argocd-notifications"),
	}
	for _, name := range []string{"git", "kubectl", "helm", "plumbline"} {
		all[name] = func(s *story, ts *testscript.TestScript, args []string) error { return s.exec(ts, name, args) }
	}
	wrapped := map[string]func(*testscript.TestScript, bool, []string){}
	for name, run := range all {
		wrapped[name] = func(ts *testscript.TestScript, negated bool, args []string) {
			s, ok := ts.Value(storyKey{}).(*story)
			if !ok {
				ts.Fatalf("no story is being told")
			}
			began := time.Now()
			err := run(s, ts, args)
			if took := time.Since(began); took > time.Second {
				ts.Logf("[%.1fs]", took.Seconds())
			}
			switch {
			case negated && err == nil:
				ts.Fatalf("%s did what it was not to do", name)
			case negated:
				ts.Logf("%v", err)
			default:
				ts.Check(err)
			}
		}
	}
	return wrapped
}

// exec runs a program so that stdout and stderr can check its output.
func (s *story) exec(ts *testscript.TestScript, name string, args []string) error {
	if name == "git" {
		args = append([]string{"-C", s.repo.Clone}, args...)
	}
	return ts.Exec(name, args...)
}

// program runs a program for the runner itself and returns its output.
func (s *story) program(ctx context.Context, name string, args ...string) (string, error) {
	path := filepath.Join(s.c.Bin(), name)
	if name == "plumbline" {
		path = daemon.Binary(s.root)
	}
	if name == "git" {
		path = "git"
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(s.c.Environment(), s.repo.Environment()...)
	cmd.Env = append(cmd.Env, "KUBECONFIG="+s.kubeconfig())
	if name == "git" {
		cmd.Dir = s.repo.Clone
	}
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// exitsCommand is `exits CODE PROGRAM ARGS`.
func (s *story) exitsCommand(ts *testscript.TestScript, args []string) error {
	if len(args) < 2 {
		return errors.New("usage: exits CODE PROGRAM ARGS")
	}
	got := 0
	if err := s.exec(ts, args[1], args[2:]); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			return err
		}
		got = exit.ExitCode()
	}
	if fmt.Sprint(got) != args[0] {
		return fmt.Errorf("exit code: got %d, want %s", got, args[0])
	}
	return nil
}

// expectCommand is `expect [-t D] PROGRAM ARGS ~ REGEX`.
func (s *story) expectCommand(_ *testscript.TestScript, args []string) error {
	timeout, args, pattern, err := options(args)
	if err != nil {
		return err
	}
	if len(args) == 0 || pattern == nil {
		return errors.New("usage: expect [-t D] PROGRAM ARGS ~ REGEX")
	}
	return s.poll(timeout, func(ctx context.Context) error {
		out, err := s.program(ctx, args[0], args[1:]...)
		if !pattern.MatchString(out) {
			return errors.Join(fmt.Errorf("it printed %q", out), err)
		}
		return nil
	})
}

// poll calls look repeatedly until it returns nil. Its last error tells what was missing.
func (s *story) poll(timeout time.Duration, look func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(s.ctx, pollEvery, timeout, true, func(ctx context.Context) (bool, error) {
		if err := look(ctx); err != nil {
			if ctx.Err() == nil || last == nil {
				last = err
			}
			for _, m := range s.members {
				if dead := m.daemon.Err(); dead != nil {
					return false, errors.Join(dead, err)
				}
			}
			return false, nil
		}
		return true, nil
	})
	if err != nil && wait.Interrupted(err) {
		return fmt.Errorf("%w (%s): %w", errNotYet, timeout, last)
	}
	return err
}

// options removes a leading -t D and a trailing ~ REGEX from the arguments.
func options(args []string) (timeout time.Duration, rest []string, pattern *regexp.Regexp, err error) {
	timeout = defaultWait
	if len(args) >= 2 && args[0] == "-t" {
		if timeout, err = time.ParseDuration(args[1]); err != nil {
			return 0, nil, nil, err
		}
		args = args[2:]
	}
	if i := slices.Index(args, "~"); i >= 0 {
		if i != len(args)-2 {
			return 0, nil, nil, errors.New("want one regular expression after ~, last")
		}
		if pattern, err = regexp.Compile("(?s)" + args[i+1]); err != nil {
			return 0, nil, nil, err
		}
		args = args[:i]
	}
	return timeout, args, pattern, nil
}

// settingsOf parses KEY=VALUE arguments.
func settingsOf(args []string) (map[string]string, error) {
	settings := map[string]string{}
	for _, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		if !ok {
			return nil, fmt.Errorf("want KEY=VALUE, got %q", arg)
		}
		settings[key] = value
	}
	return settings, nil
}
