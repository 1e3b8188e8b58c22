package githost

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/plumbline-dev/plumbline/tests/sandbox/process"
)

const (
	// startTimeout is far above the few seconds that a start takes on two busy cores.
	startTimeout = 90 * time.Second
	// startAttempts is more than one because another process may take a port between its choice and its use.
	startAttempts = 3
)

// Options specify which Gitea to run and where.
type Options struct {
	// Binary is the built program.
	Binary string
	// ModuleDir is the folder of the Go module that pins Gitea (tests/sandbox/bin/gitea); templates and locales are
	// read from the pinned module's own folder.
	ModuleDir string
	// Dir becomes the host's folder. It is created if missing and must be empty.
	Dir string
	// Logger logs starts and stops. Default: none.
	Logger *slog.Logger
	// Command creates the process. Default: exec.CommandContext.
	Command func(ctx context.Context, name string, args ...string) *exec.Cmd
}

// Host is a running Gitea.
type Host struct {
	// URL is the host's page and the root of its API, without a trailing slash.
	URL string
	// SSHAddress is host:port of the SSH server; its user is git.
	SSHAddress string
	// KnownHosts is a file with the SSH server's key.
	KnownHosts string
	// Admin has all permissions.
	Admin User

	options Options
	static  string
	process *os.Process
	stop    context.CancelFunc
	done    chan error
}

// Start returns when the host responds and its administrator exists. The process is killed when ctx is done.
func Start(ctx context.Context, o Options) (*Host, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Command == nil {
		o.Command = exec.CommandContext
	}
	static, err := staticRoot(ctx, o)
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		h := &Host{options: o, static: static}
		err := h.start(ctx)
		if err == nil {
			return h, nil
		}
		err = errors.Join(err, h.Close())
		if attempt == startAttempts || !errors.Is(err, errEnded) || ctx.Err() != nil {
			return nil, fmt.Errorf("start the Git host in %s: %w", o.Dir, err)
		}
		o.Logger.Warn("the Git host ended at once, trying other ports", "error", err)
	}
}

func (h *Host) start(ctx context.Context) error {
	if err := h.configure(); err != nil {
		return err
	}
	if err := h.launch(ctx); err != nil {
		return err
	}
	if err := h.createAdmin(ctx); err != nil {
		return err
	}
	h.options.Logger.Info("the Git host is ready", "url", h.URL, "ssh", h.SSHAddress)
	return nil
}

// configure chooses the ports and writes all files that the process reads.
func (h *Host) configure() error {
	for _, dir := range []string{"custom/conf", "data", "home", "keys"} {
		if err := os.MkdirAll(h.path(dir), 0o700); err != nil {
			return fmt.Errorf("make the Git host's folder: %w", err)
		}
	}
	// Gitea cannot choose them itself.
	ports, err := process.FreePorts(2)
	if err != nil {
		return err
	}
	h.URL = fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	h.SSHAddress = fmt.Sprintf("127.0.0.1:%d", ports[1])
	if err := h.writeHostKey(); err != nil {
		return err
	}
	return h.writeConfig(ports[0], ports[1])
}

// Close stops the process and waits until it has exited. The folder is kept.
func (h *Host) Close() error {
	if h.stop == nil {
		return nil
	}
	h.stop()
	h.stop = nil

	// Close has stopped it, so its exit status does not matter.
	err := <-h.done
	if exit := new(exec.ExitError); errors.As(err, &exit) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (h *Host) path(name string) string {
	return filepath.Join(h.options.Dir, filepath.FromSlash(name))
}

// kill replaces SIGTERM, after which Gitea would wait for its queues: nobody reads the folder afterwards.
func kill(cmd *exec.Cmd) func() error {
	return func() error { return cmd.Process.Signal(syscall.SIGKILL) }
}
