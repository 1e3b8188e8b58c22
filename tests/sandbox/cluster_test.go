package sandbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/plumbline-dev/plumbline/tests/sandbox"
	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
)

const (
	// deadline limits the time for what must happen, on a busy machine.
	deadline = 90 * time.Second
	// quiet is how long nothing must happen to count as hanging. With a working controller, the same takes about as
	// long.
	quiet   = 12 * time.Second
	logTail = 6000
)

// cluster is a sandbox as used with kubectl and helm.
type cluster struct {
	*sandbox.Sandbox
}

// up starts a sandbox, and stops it with the test.
func up(t *testing.T, options sandbox.Options) cluster {
	t.Helper()
	began := time.Now()
	options.Progress = os.Stderr
	s, err := sandbox.Up(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("up after %s", time.Since(began))
	c := cluster{s}
	t.Cleanup(func() {
		if t.Failed() {
			c.showLogs(t)
		}
		if err := s.Down(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// run runs a program of the sandbox and returns its output.
func (c cluster) run(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(c.Bin(), name), args...)
	cmd.Env = c.Environment()
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// must runs a program that must succeed.
func (c cluster) must(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := c.run(t.Context(), name, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

// words returns the words that `kubectl get` prints for a jsonpath, none if it fails.
func (c cluster) words(ctx context.Context, what, path string) []string {
	out, err := c.run(ctx, "kubectl", "get", what, "-o", "jsonpath="+path)
	if err != nil {
		return nil
	}
	return strings.Fields(out)
}

// eventually waits until ok returns true.
func eventually(t *testing.T, what string, ok func(context.Context) bool) {
	t.Helper()
	began := time.Now()
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, deadline, true,
		func(ctx context.Context) (bool, error) { return ok(ctx), nil })
	if err != nil {
		t.Fatalf("wait until %s: %v", what, err)
	}
	t.Logf("%5.1fs until %s", time.Since(began).Seconds(), what)
}

// stays fails if, during a quiet period, differs returns a difference.
func stays(t *testing.T, what string, differs func(context.Context) string) {
	t.Helper()
	diff := ""
	err := wait.PollUntilContextTimeout(t.Context(), time.Second, quiet, true,
		func(ctx context.Context) (bool, error) {
			diff = differs(ctx)
			return diff != "" && ctx.Err() == nil, nil
		})
	if !wait.Interrupted(err) || t.Context().Err() != nil {
		t.Fatalf("%s: not so any more (-want +got):\n%s", what, diff)
	}
	t.Logf("%5.1fs through which %s", quiet.Seconds(), what)
}

// running returns the number of instances that EC2 bills.
func (c cluster) running() int {
	n := 0
	for _, i := range c.AWS.Instances() {
		if i.State == "pending" || i.State == "running" {
			n++
		}
	}
	return n
}

// nothingLeft is the last check of every story.
func (c cluster) nothingLeft(t *testing.T) {
	t.Helper()
	left := func() string {
		data, err := json.Marshal(c.AWS.Left(c.Cluster))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	nothing, err := json.Marshal(awssim.New(awssim.Options{}).Left(c.Cluster))
	if err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, deadline, true,
		func(context.Context) (bool, error) { return left() == string(nothing), nil })
	if err != nil {
		t.Errorf("left in AWS (-want +got):\n%s", cmp.Diff(string(nothing), left()))
	}
}

// showLogs prints the end of the controllers' logs.
func (c cluster) showLogs(t *testing.T) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(c.Dir, "karpenter", "*", "log"))
	if err != nil {
		t.Log(err)
	}
	for _, path := range logs {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Log(err)
			continue
		}
		t.Logf("the end of %s:\n%s", path, bytes.TrimSpace(data[max(0, len(data)-logTail):]))
	}
}
