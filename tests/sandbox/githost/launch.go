package githost

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// errEnded means that the process exited before it responded.
var errEnded = errors.New("the process ended")

// pollInterval is how often to check whether a started process responds.
const pollInterval = 50 * time.Millisecond

// giteaModule is the module that contains the program's templates.
const giteaModule = "code.gitea.io/gitea"

// staticRoot returns the pinned module's folder in the module cache.
func staticRoot(ctx context.Context, o Options) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", giteaModule)
	cmd.Dir = o.ModuleDir
	cmd.Env = append(cmd.Environ(), "GOWORK=off")
	out, err := cmd.Output()
	var module struct{ Dir, Error string }
	if unreadable := json.Unmarshal(out, &module); err == nil {
		err = unreadable
	}
	if err != nil {
		return "", fmt.Errorf("find the folder of %s, pinned in %s: %w: %s", giteaModule, o.ModuleDir, err, module.Error)
	}
	return module.Dir, nil
}

// launch starts the process and waits until it responds.
func (h *Host) launch(ctx context.Context) error {
	log, err := os.Create(h.path("gitea.log"))
	if err != nil {
		return fmt.Errorf("open the Git host's log: %w", err)
	}
	defer log.Close()

	// A separate context, so that Close can stop the process before ctx is done.
	running, stop := context.WithCancel(ctx)
	cmd := h.command(running, "web")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel = kill(cmd)
	if err := cmd.Start(); err != nil {
		stop()
		return fmt.Errorf("run %s: %w", h.options.Binary, err)
	}
	h.process, h.stop, h.done = cmd.Process, stop, make(chan error, 1)
	ended := make(chan struct{})
	go func() {
		h.done <- cmd.Wait()
		close(ended)
	}()
	return h.waitReady(ctx, ended)
}

func (h *Host) waitReady(ctx context.Context, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		if h.healthy(ctx) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ended:
			return fmt.Errorf("%w before it answered; its log ends with:\n%s", errEnded, h.logEnd())
		case <-ctx.Done():
			return fmt.Errorf("wait for an answer at %s: %w; its log ends with:\n%s", h.URL, ctx.Err(), h.logEnd())
		}
	}
}

func (h *Host) healthy(ctx context.Context) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL+"/api/healthz", nil)
	if err != nil {
		return false
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

func (h *Host) logEnd() string {
	const lines = 15
	text, err := os.ReadFile(h.path("gitea.log"))
	if err != nil {
		return err.Error()
	}
	all := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}

// command returns one run of the program in the host's folder.
func (h *Host) command(ctx context.Context, args ...string) *exec.Cmd {
	args = append(args, "--config", h.path("custom/conf/app.ini"), "--work-path", h.options.Dir)
	cmd := h.options.Command(ctx, h.options.Binary, args...)
	cmd.Dir = h.options.Dir
	cmd.Env = append(cleanEnv(cmd.Environ()),
		"HOME="+h.path("home"),
		// Gitea refuses to run as root otherwise. Its folder is private, and it listens on loopback only.
		"GITEA_I_AM_BEING_UNSAFE_RUNNING_AS_ROOT=true",
		"NO_PROXY=127.0.0.1,localhost",
	)
	return cmd
}

// cleanEnv removes what would make git, or Gitea, use the repository or settings of the user who runs the sandbox.
func cleanEnv(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		return strings.HasPrefix(entry, "GIT_") || strings.HasPrefix(entry, "GITEA_") || strings.HasPrefix(entry, "SSH_")
	})
}
