package process_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/tests/sandbox/process"
)

const deadline = 10 * time.Second

// TestMain makes the test binary act as a sandbox that is killed.
func TestMain(m *testing.M) {
	if dir, ok := os.LookupEnv("PROCESS_TEST_PARENT"); ok {
		os.Exit(playParent(dir))
	}
	os.Exit(m.Run())
}

func playParent(dir string) int {
	child, err := process.NewGroup().Start(sleeper(dir))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println(child.PID())
	<-child.Done()
	return 0
}

func sleeper(dir string) process.Spec {
	return process.Spec{Name: "sleeper", Path: "/bin/sh", Args: []string{"-c", "exec sleep 300"}, Log: filepath.Join(dir, "log")}
}

func TestChildDiesWithKilledParent(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(parent.Environ(), "PROCESS_TEST_PARENT="+t.TempDir())
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("read the child's id: %v", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if !alive(pid) {
		t.Fatalf("child %d is not running before its parent is killed", pid)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	gone(t, pid)
}

func TestCloseKills(t *testing.T) {
	group := process.NewGroup()
	child, err := group.Start(sleeper(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	group.Close()
	select {
	case <-child.Done():
	case <-time.After(deadline):
		t.Fatal("the child outlived its group")
	}
	if got := child.ExitCode(); got != 128+int(syscall.SIGKILL) {
		t.Errorf("exit code of a killed program: got %d, want 137", got)
	}
	if _, err := group.Start(sleeper(t.TempDir())); !errors.Is(err, process.ErrClosed) {
		t.Fatalf("start in a closed group: got %v, want ErrClosed", err)
	}
}

func TestErrShowsTheLog(t *testing.T) {
	group := process.NewGroup()
	defer group.Close()
	child, err := group.Start(process.Spec{
		Name: "failing", Path: "/bin/sh",
		Args: []string{"-c", "echo no such thing >&2; exit 3"}, Log: filepath.Join(t.TempDir(), "log"),
	})
	if err != nil {
		t.Fatal(err)
	}
	<-child.Done()
	if got := child.ExitCode(); got != 3 {
		t.Errorf("exit code: got %d, want 3", got)
	}
	if got := child.Err().Error(); !strings.Contains(got, "no such thing") {
		t.Errorf("error without the log's end: %s", got)
	}
}

func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ") && syscall.Kill(pid, 0) == nil
}

func gone(t *testing.T, pid int) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(deadline)
	for alive(pid) {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("process %d outlived its parent", pid)
		}
	}
}

func TestHostname(t *testing.T) {
	group := process.NewGroup()
	defer group.Close()
	log := filepath.Join(t.TempDir(), "log")
	child, err := group.Start(process.Spec{
		Name: "namer", Path: "/bin/sh", Args: []string{"-c", "uname -n"},
		Env: []string{"PATH=/usr/bin:/bin"}, Log: log, Hostname: "karpenter-0",
	})
	if err != nil {
		t.Fatal(err)
	}
	<-child.Done()
	got, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	machine, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	switch strings.TrimSpace(string(got)) {
	case "karpenter-0":
	case machine:
		t.Skip("this kernel gives an ordinary user no namespaces")
	default:
		t.Errorf("host name: got %q", got)
	}
}

// A program started by one group's Command outlives other groups, whichever threads they used.
func TestCommandOutlivesOtherGroups(t *testing.T) {
	const many = 40
	g := process.NewGroup()
	t.Cleanup(g.Close)
	ended := make(chan error, many)
	for range many {
		cmd := g.Command(t.Context(), "/bin/sleep", "60")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		go func() { ended <- cmd.Wait() }()
		other := process.NewGroup()
		if p, err := other.Start(process.Spec{Name: "true", Path: "/bin/true", Log: filepath.Join(t.TempDir(), "log")}); err != nil {
			t.Fatal(err)
		} else {
			<-p.Done()
		}
		other.Close()
	}
	select {
	case err := <-ended:
		t.Fatalf("a program was ended by the end of another group: %v", err)
	case <-time.After(500 * time.Millisecond):
	}
}
