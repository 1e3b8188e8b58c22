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

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/plumbline-dev/plumbline/tests/sandbox"
)

// TestMain makes the test binary act as a program that starts a sandbox.
func TestMain(m *testing.M) {
	if dir, ok := os.LookupEnv("SANDBOX_TEST_PARENT"); ok {
		os.Exit(playParent(dir))
	}
	os.Exit(m.Run())
}

func playParent(dir string) int {
	ctx := context.Background() //nolint:forbidigo // this plays a main
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
	t.Parallel()
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

func TestSandboxesSideBySide(t *testing.T) {
	t.Parallel()
	both := make([]*sandbox.Sandbox, 2)
	starting, ctx := errgroup.WithContext(t.Context())
	for i := range both {
		starting.Go(func() (err error) {
			both[i], err = sandbox.Up(ctx, sandbox.Options{Cluster: fmt.Sprintf("side-%d", i), Progress: os.Stderr})
			return err
		})
	}
	failed := starting.Wait()
	for _, s := range both {
		if s != nil {
			t.Cleanup(func() {
				if err := s.Down(); err != nil {
					t.Error(err)
				}
			})
		}
	}
	if failed != nil {
		t.Fatal(failed)
	}
	a, b := both[0], both[1]
	if _, err := a.Kube.Client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "only-here"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Kube.Client.CoreV1().Namespaces().Get(t.Context(), "only-here", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("get a namespace of the other sandbox: got %v, want NotFound", err)
	}
	if err := a.Down(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(a.Dir); !os.IsNotExist(err) {
		t.Errorf("the folder of a sandbox that has ended is still there (%v)", err)
	}
	if _, err := b.Kube.Client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("one sandbox's end took the other with it: %v", err)
	}
}

// programsIn returns the command lines of the processes that have dir in their arguments or as their working directory.
func programsIn(t *testing.T, dir string) []string {
	t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, process := range processes {
		command, err := os.ReadFile(process + "/cmdline")
		if err != nil || len(command) == 0 { // it has exited
			continue
		}
		cwd, _ := os.Readlink(process + "/cwd")
		if bytes.Contains(command, []byte(dir)) || strings.HasPrefix(cwd, dir) {
			found = append(found, string(bytes.ReplaceAll(command, []byte{0}, []byte{' '})))
		}
	}
	return found
}
