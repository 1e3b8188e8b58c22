package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/plumbline-dev/plumbline/tests/sandbox/kube"
	"github.com/plumbline-dev/plumbline/tests/sandbox/process"
)

const (
	// StopGrace is how long the daemon may take to exit, as in a Pod.
	StopGrace = 30 * time.Second
	logFile   = "daemon.log"
)

// Options specify where a daemon runs.
type Options struct {
	// Kube is the control plane with plumbline installed.
	Kube *kube.ControlPlane
	// AWS contains the environment variables for the daemon's AWS account.
	AWS map[string]string
	// Root is the checkout that contains bin/plumbline.
	Root string
	// Dir is the daemon's folder for its cache and its log. It is created if missing.
	Dir string
	// Guarded makes the process exit if it modifies an object of its watch cache, which all reconciles share. It costs
	// memory and time.
	Guarded bool
	// Endpoint is another address for the API server. Default: the API server's own.
	Endpoint string
}

// Daemon is `plumbline run` as a process that can be started many times.
type Daemon struct {
	options  Options
	programs *process.Group
	running  *process.Process
	flags    []string // those of the last start
}

// New returns a daemon that does not run yet. Close stops it.
func New(options Options) *Daemon {
	return &Daemon{options: options, programs: process.NewGroup()}
}

// Binary returns the path of the built program in the checkout at root.
func Binary(root string) string { return filepath.Join(root, "bin", "plumbline") }

// StepsBinary returns the path of the program with step points, built by `make build-steps`.
func StepsBinary(root string) string { return Binary(root) + "-steps" }

// Start starts the process with flags in addition to the usual ones. It does not wait for anything.
func (d *Daemon) Start(ctx context.Context, flags ...string) error {
	return d.start(ctx, Binary(d.options.Root), nil, flags)
}

// StartSteps starts the program with step points, which may kill itself at one of them.
func (d *Daemon) StartSteps(ctx context.Context, flags ...string) error {
	return d.start(ctx, StepsBinary(d.options.Root), nil, flags)
}

// StartCramped starts a process whose files cannot grow, as on a full disk. Its log is one of them.
func (d *Daemon) StartCramped(ctx context.Context, flags ...string) error {
	shell := []string{"/bin/sh", "-c", `ulimit -f 0 && exec "$0" "$@"`}
	return d.start(ctx, Binary(d.options.Root), shell, flags)
}

// StartCommand starts another command of the program with step points, instead of the daemon and with its own
// environment.
func (d *Daemon) StartCommand(env, command []string) (err error) {
	if d.Running() {
		return errors.New("the daemon runs already")
	}
	d.running, err = d.programs.Start(process.Spec{
		Name: "plumbline", Path: StepsBinary(d.options.Root), Args: command, Env: env, Dir: d.options.Dir, Log: d.LogFile(),
	})
	return err
}

// EndsWell waits until a process that was asked to stop has exited, and returns an error if it took longer than a
// kubelet allows, or failed.
func (d *Daemon) EndsWell() error {
	grace := time.NewTimer(StopGrace)
	defer grace.Stop()
	select {
	case <-d.running.Done():
	case <-grace.C:
		return fmt.Errorf("asked to end, the daemon did not within %s", StopGrace)
	}
	if d.running.ExitCode() != 0 {
		return fmt.Errorf("asked to end, the daemon did not end well: %w", d.running.Err())
	}
	d.running = nil
	return nil
}

// start starts a program, optionally through another one.
func (d *Daemon) start(ctx context.Context, program string, through, flags []string) error {
	if d.Running() {
		return errors.New("the daemon runs already")
	}
	if _, err := os.Stat(program); err != nil {
		return fmt.Errorf("find the program (make build build-steps): %w", err)
	}
	if err := os.MkdirAll(d.options.Dir, 0o700); err != nil {
		return fmt.Errorf("make the daemon's folder: %w", err)
	}
	kubeconfig := filepath.Join(d.options.Dir, "kubeconfig")
	err := d.options.Kube.ServiceAccountKubeconfig(ctx, kubeconfig, Namespace, ServiceAccount, nil)
	if err != nil {
		return err
	}
	if err := d.redirect(kubeconfig); err != nil {
		return err
	}
	command := slices.Concat(through, []string{program}, d.args(), flags)
	d.flags = flags
	d.running, err = d.programs.Start(process.Spec{
		Name: "plumbline", Path: command[0], Args: command[1:], Env: d.env(kubeconfig),
		Dir: d.options.Dir, Log: d.LogFile(),
	})
	return err
}

// Via sets the address for the API server from the next start on.
func (d *Daemon) Via(endpoint string) { d.options.Endpoint = endpoint }

// redirect writes another address of the API server into a kubeconfig.
func (d *Daemon) redirect(kubeconfig string) error {
	if d.options.Endpoint == "" {
		return nil
	}
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return fmt.Errorf("read the daemon's kubeconfig: %w", err)
	}
	for _, cluster := range config.Clusters {
		cluster.Server = d.options.Endpoint
	}
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		return fmt.Errorf("write the daemon's kubeconfig: %w", err)
	}
	return nil
}

func (d *Daemon) args() []string {
	return []string{
		"run", "--watch-namespace=" + Namespace, "--cache-dir=" + d.cacheDir(),
		"--metrics-addr=0", "--health-addr=0", "--cloud-interval=1s", "--log-level=debug",
	}
}

// env returns all variables that a Pod of the Deployment would have: no PATH, as its image contains no other program.
func (d *Daemon) env(kubeconfig string) []string {
	env := []string{
		"KUBECONFIG=" + kubeconfig, "HOME=" + d.options.Dir, "TMPDIR=" + d.options.Dir, "NO_PROXY=127.0.0.1,localhost",
		"POD_NAMESPACE=" + Namespace,
	}
	if d.options.Guarded {
		// k8s.io/client-go/tools/cache/mutation_detector.go
		env = append(env, "KUBE_CACHE_MUTATION_DETECTOR=true")
	}
	for name, value := range d.options.AWS {
		env = append(env, name+"="+value)
	}
	return env
}

// Running reports whether the process exists, frozen or not.
func (d *Daemon) Running() bool { return d.running != nil && d.running.ExitCode() == -1 }

// PID returns the process ID; 0 while it does not run.
func (d *Daemon) PID() int {
	if !d.Running() {
		return 0
	}
	return d.running.PID()
}

// Err returns how the process exited on its own; nil while it runs, or if it was never started or was stopped.
func (d *Daemon) Err() error {
	if d.running == nil || d.Running() {
		return nil
	}
	return d.running.Err()
}

// Stop stops the process as a kubelet does: with SIGTERM first. It returns an error if that is not enough, or if the
// process fails.
func (d *Daemon) Stop() error {
	ended, err := d.end(StopGrace)
	if err == nil && ended.ExitCode() != 0 {
		return fmt.Errorf("asked to end, the daemon did not end well: %w", ended.Err())
	}
	return err
}

// Kill kills the process immediately, as if the machine failed.
func (d *Daemon) Kill() error {
	_, err := d.end(0)
	return err
}

func (d *Daemon) end(grace time.Duration) (*process.Process, error) {
	if !d.Running() {
		return nil, errors.Join(errors.New("the daemon does not run"), d.Err())
	}
	ended := d.running
	ended.Stop(grace)
	d.running = nil
	return ended, nil
}

// ExitCode returns how the process exited on its own, like a container runtime: 137 after SIGKILL, -1 while it runs.
func (d *Daemon) ExitCode() int {
	if d.running == nil {
		return -1
	}
	return d.running.ExitCode()
}

// Pause freezes the process; Continue resumes it.
func (d *Daemon) Pause() error { return d.signal(syscall.SIGSTOP) }

// Continue resumes a paused process.
func (d *Daemon) Continue() error { return d.signal(syscall.SIGCONT) }

func (d *Daemon) signal(s syscall.Signal) error {
	if !d.Running() {
		return errors.Join(errors.New("the daemon does not run"), d.Err())
	}
	return syscall.Kill(d.running.PID(), s)
}

// Forget empties the cache of a daemon that does not run.
func (d *Daemon) Forget() error {
	if d.Running() {
		return errors.New("the daemon runs, and its cache is in use")
	}
	return os.RemoveAll(d.cacheDir())
}

func (d *Daemon) cacheDir() string { return filepath.Join(d.options.Dir, "cache") }

// Ended waits until the process has exited on its own, as expected.
func (d *Daemon) Ended(ctx context.Context) error {
	if d.running == nil {
		return errors.New("the daemon does not run")
	}
	select {
	case <-d.running.Done():
		d.running = nil
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the daemon to end: %w", ctx.Err())
	}
}

// Close kills the process, if it runs. It cannot be started again.
func (d *Daemon) Close() { d.programs.Close() }

// LogFile returns the file that the process appends its log to.
func (d *Daemon) LogFile() string { return filepath.Join(d.options.Dir, logFile) }

// LogTail returns the last lines of the log.
func (d *Daemon) LogTail(lines int) string {
	data, err := os.ReadFile(d.LogFile())
	if err != nil {
		return err.Error()
	}
	all := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}
