package sandbox_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/plumbline-dev/plumbline/tests/sandbox"
)

// TestMain lets the test binary play a program that starts a sandbox.
func TestMain(m *testing.M) {
	if dir := os.Getenv("SANDBOX_TEST_PARENT"); dir != "" {
		os.Exit(playParent(dir))
	}
	os.Exit(m.Run())
}

func playParent(dir string) int {
	ctx := context.Background()
	s, err := sandbox.Up(ctx, sandbox.Options{Dir: dir, WithGit: true, Progress: os.Stderr})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("up", s.Git.URL)
	<-ctx.Done()
	return 0
}

func TestNothingOutlivesAKilledParent(t *testing.T) {
	dir := t.TempDir()
	parent := exec.Command(os.Args[0])
	parent.Env = append(parent.Environ(), "SANDBOX_TEST_PARENT="+dir)
	parent.Stderr = os.Stderr
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "up ") {
		t.Fatalf("the parent did not start its sandbox: %q, %v", line, err)
	}
	t.Logf("up with a Git host after %s", time.Since(began))
	// etcd, kube-apiserver, -controller-manager and -scheduler, kwok, Gitea.
	if got := programsIn(t, dir); len(got) < 6 {
		t.Fatalf("programs of the sandbox: %q, want 6", got)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	err = wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, deadline, true,
		func(context.Context) (bool, error) { return len(programsIn(t, dir)) == 0, nil })
	if err != nil {
		t.Fatalf("still running: %q", programsIn(t, dir))
	}
}

// programsIn are the command lines of the processes
// that name dir in their arguments or work in it.
func programsIn(t *testing.T, dir string) []string {
	t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, process := range processes {
		command, err := os.ReadFile(process + "/cmdline")
		if err != nil || len(command) == 0 { // it has ended
			continue
		}
		cwd, _ := os.Readlink(process + "/cwd")
		if bytes.Contains(command, []byte(dir)) || strings.HasPrefix(cwd, dir) {
			found = append(found, string(bytes.ReplaceAll(command, []byte{0}, []byte{' '})))
		}
	}
	return found
}
