package confine_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/confine"
)

// runner runs this test's binary, also as the child.
var runner *confine.Runner

// unconfined is what the kernel refuses.
var unconfined atomic.Value

func TestMain(m *testing.M) {
	runner = confine.Serve(os.Args, options())
	os.Exit(m.Run())
}

func options() confine.Options {
	return confine.Options{
		Jobs: map[string]confine.Job{
			"echo": echo, "loop": loop, "hoard": hoard, "flood": flood, "stack": stack, "reach": reach, "fail": fail,
		},
		Limits:     confine.Limits{Memory: 128 << 20, CPU: time.Second, Wall: 4 * time.Minute, Output: 4 << 20},
		Unconfined: func(what string) { unconfined.Store(what) },
	}
}

// The jobs.
func echo(t *confine.Talk) error {
	message, err := t.Receive()
	if err != nil {
		return err
	}
	return t.Send(message)
}

func loop(*confine.Talk) error {
	for n := 0; ; n++ { // stopped by a limit
		_ = n
	}
}

func hoard(*confine.Talk) error {
	var held [][]byte
	for {
		held = append(held, bytes.Repeat([]byte{1}, 1<<20))
		runtime.KeepAlive(held)
	}
}

func flood(t *confine.Talk) error {
	for {
		if err := t.Send(strings.Repeat("x", 1<<20)); err != nil {
			return err
		}
	}
}

func stack(*confine.Talk) error {
	var down func(n int) int
	down = func(n int) int { return down(n+1) + n }
	down(0)
	return nil
}

func fail(*confine.Talk) error { return errors.New("no") }

// reach tries what a job must not do, and replies with what succeeded.
func reach(t *confine.Talk) error {
	var could []any
	try := func(what string, err error) {
		if err == nil {
			could = append(could, what)
		}
	}
	_, err := os.ReadFile("/proc/self/status")
	try("read a file", err)
	try("write a file", os.WriteFile(os.DevNull, []byte("x"), 0o600))
	_, err = os.ReadDir("/")
	try("list a folder", err)
	_, err = net.DialTimeout("tcp", "127.0.0.1:9", time.Second)
	if err == nil || errors.Is(err, syscall.ECONNREFUSED) {
		could = append(could, "open a socket")
	}
	_, err = net.Listen("unix", "@plumbline")
	try("listen", err)
	try("start a program", exec.Command("/proc/self/exe").Start())
	try("signal its parent", syscall.Kill(os.Getppid(), 0))
	const setSignal = 10 // F_SETSIG of Linux
	for what, with := range map[string][2]int{
		"have the kernel signal its parent": {syscall.F_SETOWN, os.Getppid()}, "choose the kernel's signal": {setSignal, int(syscall.SIGKILL)},
	} {
		if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, os.Stdin.Fd(), uintptr(with[0]), uintptr(with[1])); errno == 0 {
			could = append(could, what)
		}
	}
	try("trace its parent", syscall.PtraceAttach(os.Getppid()))
	if environment := os.Environ(); len(environment) > 0 {
		could = append(could, "read the environment")
	}
	return t.Send(could)
}

func ask(t *testing.T, job string, question any) (any, error) {
	t.Helper()
	return runner.Ask(t.Context(), "the work", job, question)
}

func TestValuesComeAsTheyWere(t *testing.T) {
	sent := map[string]any{
		"null": nil, "yes": true, "no": false, "whole": int64(-1 << 62), "float": 2.0, "large": 1e300, "text": "a\xff\x00", "long": strings.Repeat("x", 1<<20),
		"list": []any{int64(1), "a", []any{}, map[string]any{}},
	}
	got, err := ask(t, "echo", sent)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(any(sent), got); diff != "" {
		t.Errorf("(-sent +got):\n%s", diff)
	}
}

func TestLimits(t *testing.T) {
	for job, want := range map[string]string{
		"loop": "the work took more than 1 s of processor time", "hoard": "128 MiB of memory", "stack": "128 MiB of memory", "flood": "4 MiB of output",
	} {
		t.Run(job, func(t *testing.T) {
			err := runner.Run(t.Context(), "the work", job, func(talk *confine.Talk) error {
				for {
					if _, err := talk.Receive(); err != nil {
						return err
					}
				}
			})
			var limit *confine.LimitError
			if !errors.As(err, &limit) || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %q", err, want)
			}
		})
	}
}

// TestWhatWasTooMuchIsNotAskedAgain: the same commit reaches a limit only once.
func TestWhatWasTooMuchIsNotAskedAgain(t *testing.T) {
	_, first := ask(t, "loop", "twice")
	began := time.Now()
	_, again := ask(t, "loop", "twice")
	if first == nil || !errors.Is(again, first) || time.Since(began) > time.Second {
		t.Errorf("error %v, then %v after %s", first, again, time.Since(began))
	}
}

// TestChildrenAreTold: Ended is called for each child that was started, and for no other.
func TestChildrenAreTold(t *testing.T) {
	var told []string
	telling := runner.WithCallbacks(nil, func(what string, cpu time.Duration) {
		if cpu > time.Minute {
			t.Errorf("%s took %s", what, cpu)
		}
		told = append(told, what)
	})
	_, _ = telling.Ask(t.Context(), "an echo", "echo", "told")
	_, _ = telling.Ask(t.Context(), "a loop", "loop", "told")
	_, _ = telling.Ask(t.Context(), "the same loop", "loop", "told")
	if diff := cmp.Diff([]string{"an echo", "a loop"}, told); diff != "" {
		t.Errorf("children (-want +got):\n%s", diff)
	}
}

func TestAChildReachesNothing(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
	could, err := ask(t, "reach", nil)
	if err != nil {
		t.Fatal(err)
	}
	if refused, _ := unconfined.Load().(string); strings.Contains(refused, "filter") {
		t.Skip("this kernel has no filter of system calls: ", refused)
	}
	if list, _ := could.([]any); len(list) > 0 {
		t.Errorf("a child could %v", list)
	}
}

func TestAChildThatFails(t *testing.T) {
	_, err := ask(t, "fail", nil)
	var failed *confine.ChildError
	if !errors.As(err, &failed) {
		t.Errorf("error %v, want a *ChildError", err)
	}
}

// TestTheParentsErrorStands: an error of talk is not blamed on the child.
func TestTheParentsErrorStands(t *testing.T) {
	own := errors.New("the disk is gone")
	if err := runner.Run(t.Context(), "the work", "loop", func(*confine.Talk) error { return own }); !errors.Is(err, own) {
		t.Errorf("error %v, want %v", err, own)
	}
}

// TestAContextThatEndsKills: a canceled context kills the child.
func TestAContextThatEndsKills(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	err := runner.Run(ctx, "the work", "loop", func(talk *confine.Talk) error {
		cancel()
		_, err := talk.Receive()
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
}
