package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/plumbline-dev/plumbline/tests/sandbox/kube"
	"github.com/plumbline-dev/plumbline/tests/sandbox/process"
)

const (
	// stopGrace is how long the daemon may take to end by itself, as in a Pod.
	stopGrace = 30 * time.Second
	logFile   = "daemon.log"
)

// Options say where a daemon runs.
type Options struct {
	// Kube is the control plane where Install was.
	Kube *kube.ControlPlane
	// AWS are the variables of the environment that lead the daemon to its account.
	AWS map[string]string
	// Root is the checkout with bin/plumbline in it.
	Root string
	// Dir is the daemon's folder: its cache and its log. It is made if need be.
	Dir string
}

// Daemon is `plumbline run` as a process that can be started many times.
type Daemon struct {
	options  Options
	programs *process.Group
	running  *process.Process
}

// New makes a daemon that does not run yet. Close ends it.
func New(options Options) *Daemon {
	return &Daemon{options: options, programs: process.NewGroup()}
}

// Binary is the built program in the checkout at root.
func Binary(root string) string { return filepath.Join(root, "bin", "plumbline") }

// Start starts the process with some flags beside the usual ones. It does not
// wait for anything.
func (d *Daemon) Start(ctx context.Context, flags ...string) error {
	if d.Running() {
		return errors.New("the daemon runs already")
	}
	if _, err := os.Stat(Binary(d.options.Root)); err != nil {
		return fmt.Errorf("find the program (make build): %w", err)
	}
	if err := os.MkdirAll(d.options.Dir, 0o700); err != nil {
		return fmt.Errorf("make the daemon's folder: %w", err)
	}
	kubeconfig := filepath.Join(d.options.Dir, "kubeconfig")
	err := d.options.Kube.ServiceAccountKubeconfig(ctx, kubeconfig, Namespace, ServiceAccount, nil)
	if err != nil {
		return err
	}
	d.running, err = d.programs.Start(process.Spec{
		Name: "plumbline", Path: Binary(d.options.Root), Args: append(d.args(), flags...), Env: d.env(kubeconfig),
		Dir: d.options.Dir, Log: d.LogFile(),
	})
	return err
}

func (d *Daemon) args() []string {
	return []string{
		"run", "--watch-namespace=" + Namespace, "--cache-dir=" + filepath.Join(d.options.Dir, "cache"),
		"--metrics-addr=0", "--health-addr=0", "--cloud-interval=1s", "--log-level=debug",
	}
}

// env is all that a Pod of the Deployment would have: no PATH, as its image
// holds no other program.
func (d *Daemon) env(kubeconfig string) []string {
	env := []string{
		"KUBECONFIG=" + kubeconfig, "HOME=" + d.options.Dir, "TMPDIR=" + d.options.Dir, "NO_PROXY=127.0.0.1,localhost",
		"POD_NAMESPACE=" + Namespace,
	}
	for name, value := range d.options.AWS {
		env = append(env, name+"="+value)
	}
	return env
}

// Running says whether the process is there, frozen or not.
func (d *Daemon) Running() bool { return d.running != nil && d.running.ExitCode() == -1 }

// PID is the process id; 0 while it does not run.
func (d *Daemon) PID() int {
	if !d.Running() {
		return 0
	}
	return d.running.PID()
}

// Err says how the process ended by itself; nil while it runs, or when it was
// never started or was ended on purpose.
func (d *Daemon) Err() error {
	if d.running == nil || d.Running() {
		return nil
	}
	return d.running.Err()
}

// Stop ends the process as a kubelet does: politely first.
func (d *Daemon) Stop() error { return d.end(stopGrace) }

// Kill ends the process at once, as a lost machine does.
func (d *Daemon) Kill() error { return d.end(0) }

func (d *Daemon) end(grace time.Duration) error {
	if !d.Running() {
		return errors.Join(errors.New("the daemon does not run"), d.Err())
	}
	d.running.Stop(grace)
	d.running = nil
	return nil
}

// Pause freezes the process; Continue lets it go on.
func (d *Daemon) Pause() error { return d.signal(syscall.SIGSTOP) }

// Continue lets a paused process go on.
func (d *Daemon) Continue() error { return d.signal(syscall.SIGCONT) }

func (d *Daemon) signal(s syscall.Signal) error {
	if !d.Running() {
		return errors.Join(errors.New("the daemon does not run"), d.Err())
	}
	return syscall.Kill(d.running.PID(), s)
}

// Close kills the process, if it runs, and ends for good.
func (d *Daemon) Close() { d.programs.Close() }

// LogFile is where the process writes, start after start.
func (d *Daemon) LogFile() string { return filepath.Join(d.options.Dir, logFile) }

// LogTail are the last lines of the log.
func (d *Daemon) LogTail(lines int) string {
	data, err := os.ReadFile(d.LogFile())
	if err != nil {
		return err.Error()
	}
	all := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}
