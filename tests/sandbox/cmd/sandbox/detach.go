package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
)

const (
	detachFlag = "detach"
	pollEvery  = 100 * time.Millisecond
	// downTimeout is how long a sandbox may take to stop.
	downTimeout = time.Minute
	// howElse tells what to do if one is up already.
	howElse = "end it with bin/sandbox down, or have another one beside it with --dir (bin/sandbox up --dir DIR, bin/sandbox env --dir DIR)"
)

// upDetached runs the same command without -d in a new session and returns when its sandbox is up.
//
// The programs are built before, so that their progress is visible.
func upDetached(cmd *cobra.Command, dir string, programs []binaries.Name) error {
	if _, err := readRecord(cmd.Context(), dir); !errors.Is(err, errNotUp) {
		return errors.Join(fmt.Errorf("a sandbox is already up in %s: %s", dir, howElse), err)
	}
	builder, err := newBuilder(cmd, "", "")
	if err != nil {
		return err
	}
	if _, err := builder.Build(cmd.Context(), programs...); err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(dir, 0o700), sweep(dir)); err != nil {
		return err
	}
	path := filepath.Join(dir, logFile)
	log, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("open the sandbox's log: %w", err)
	}
	defer func() { _ = log.Close() }() // the child has its own
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program's file: %w", err)
	}
	child := exec.Command(self, append(os.Args[1:], "--"+detachFlag+"=false")...) // the last one counts
	child.Stdout, child.Stderr = log, log
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := child.Start(); err != nil {
		return fmt.Errorf("start the sandbox's process: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	if err := awaitUp(cmd.Context(), dir, path, ended); err != nil {
		return errors.Join(err, ignoreDone(child.Process.Signal(syscall.SIGTERM)))
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "up, process %d, log %s. Next: eval \"$(%s)\"; at the end: %s\n", child.Process.Pid, path, command(cmd, "env"), command(cmd, "down"))
	return nil
}

// awaitUp returns when the record exists, or with an error when the process exits before.
func awaitUp(ctx context.Context, dir, log string, ended <-chan error) error {
	return wait.PollUntilContextCancel(ctx, pollEvery, true, func(context.Context) (bool, error) {
		select {
		case err := <-ended:
			return false, errors.Join(fmt.Errorf("the sandbox did not start: see %s", log), err)
		default:
		}
		_, err := os.Stat(filepath.Join(dir, recordFile))
		return err == nil, nil
	})
}

func ignoreDone(err error) error {
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

func downCommand(dirFlag *string) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "End the sandbox that is up",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := folder(*dirFlag)
			if err != nil {
				return err
			}
			r, err := readRecord(cmd.Context(), dir)
			if errors.Is(err, errNotUp) {
				fmt.Fprintln(cmd.ErrOrStderr(), err)
				return nil
			}
			if err != nil {
				return err
			}
			return down(cmd.Context(), dir, r)
		},
	}
}

// down stops the process that holds the folder's lock, which is the recorded one, and returns when it has released the
// lock.
func down(ctx context.Context, dir string, r record) error {
	if err := syscall.Kill(r.PID, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("end the sandbox's process %d: %w", r.PID, err)
	}
	err := wait.PollUntilContextTimeout(ctx, pollEvery, downTimeout, true, func(ctx context.Context) (bool, error) {
		unlock, err := tryLock(ctx, dir)
		if err != nil {
			return false, nil //nolint:nilerr // it is still held
		}
		unlock()
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the sandbox's process %d to end: %w", r.PID, err)
	}
	return sweep(dir)
}
