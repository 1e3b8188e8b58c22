package main

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// process returns plumbline as a process, with this process's environment except HOME.
func process(t *testing.T, home []string, args ...string) (cmd *exec.Cmd, errs *bytes.Buffer) {
	t.Helper()
	cmd, errs = exec.CommandContext(t.Context(), os.Args[0], args...), &bytes.Buffer{}
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "HOME=") || strings.HasPrefix(v, "KUBECONFIG=") })
	cmd.Env = append(append(cmd.Env, runVariable+"=1"), home...)
	cmd.Stderr = errs
	return cmd, errs
}

// ended returns how a process has exited: the signal, or the code.
func ended(t *testing.T, err error) (code int, by syscall.Signal) {
	t.Helper()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, 0
	case !errors.As(err, &exit):
		t.Fatal(err)
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 0, status.Signal()
	}
	return exit.ExitCode(), 0
}

// TestClosedPipe: `plumbline … | head` exits without an error.
func TestClosedPipe(t *testing.T) {
	_, kubeconfig := serve(t, nodeSync("prod"))
	each(t, func(t *testing.T, cmd *cobra.Command) {
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := read.Close(); err != nil {
			t.Fatal(err)
		}
		defer write.Close()
		args, _ := given(cmd, examples(t)["basic"], "prod")
		run, errs := process(t, []string{"HOME=" + t.TempDir()}, line(cmd, append(args, "--kubeconfig", kubeconfig)...)...)
		run.Stdout = write
		code, by := ended(t, run.Run())
		if by != 0 && by != syscall.SIGPIPE {
			t.Errorf("ended by %v", by)
		}
		graceful(t, said{code: code, err: errs.String()})
	})
}

// TestHomeless: commands work without HOME, and with one that is not writable.
func TestHomeless(t *testing.T) {
	_, kubeconfig := serve(t, nodeSync("prod"))
	each(t, func(t *testing.T, cmd *cobra.Command) {
		args, _ := given(cmd, examples(t)["basic"], "prod")
		args = line(cmd, append(args, "--kubeconfig", kubeconfig)...)
		codes := map[string]int{}
		for name, home := range map[string][]string{"as always": {"HOME=" + t.TempDir()}, "none": nil, "unwritable": {"HOME=/proc"}} {
			run, errs := process(t, home, args...)
			code, by := ended(t, run.Run())
			if graceful(t, said{code: code, err: errs.String()}); by != 0 {
				t.Errorf("%s: ended by %v", name, by)
			}
			codes[name] = code
		}
		if codes["none"] != codes["as always"] || codes["unwritable"] != codes["as always"] {
			t.Errorf("exit codes %v", codes)
		}
	})
}

// TestInterruptedAnywhere: Ctrl-C stops a command immediately, with one line, whatever the cluster does.
func TestInterruptedAnywhere(t *testing.T) {
	each(t, func(t *testing.T, cmd *cobra.Command) {
		args, asks := given(cmd, examples(t)["basic"], "prod")
		if !asks {
			return
		}
		var once sync.Once
		asked, over := make(chan struct{}), make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			once.Do(func() { close(asked) })
			<-over // no response
		}))
		defer server.Close()
		defer close(over)
		run, errs := process(t, []string{"HOME=" + t.TempDir()}, line(cmd, append(args, "--kubeconfig", kubeconfigFor(t, server.URL))...)...)
		if err := run.Start(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-asked:
		case <-time.After(10 * time.Second):
			t.Fatalf("asks nothing: %s", errs)
		}
		began := time.Now()
		if err := run.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		code, by := ended(t, run.Wait())
		if took := time.Since(began); code != exitFailed || by != 0 || errs.String() != "plumbline: stopped\n" || took > 10*time.Second {
			t.Errorf("after %s: code %d, %v, says %q", took, code, by, errs)
		}
	})
}
