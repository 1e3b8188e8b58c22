package nodes

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

//go:embed stages.yaml
var stages string

// podCIDR has addresses for far more pods than a sandbox runs.
const podCIDR = "10.64.0.0/12"

// stagesFor inserts how long a pod takes to start and to terminate.
func stagesFor(podStart, podDelete time.Duration) string {
	return strings.NewReplacer(
		"<pod-start>", strconv.FormatInt(podStart.Milliseconds(), 10),
		"<pod-delete>", strconv.FormatInt(podDelete.Milliseconds(), 10),
	).Replace(stages)
}

// startKwok starts the process that simulates all kubelets. It stops with ctx; the channel receives its error, nil if
// ctx stopped it.
func startKwok(ctx context.Context, o Options) (<-chan error, error) {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the nodes' folder: %w", err)
	}
	config := filepath.Join(o.Dir, "stages.yaml")
	if err := os.WriteFile(config, []byte(stagesFor(o.PodStart, o.PodDelete)), 0o600); err != nil {
		return nil, fmt.Errorf("write kwok's stages: %w", err)
	}
	log, err := os.Create(filepath.Join(o.Dir, "kwok.log"))
	if err != nil {
		return nil, fmt.Errorf("open kwok's log: %w", err)
	}
	defer log.Close()

	cmd := o.Command(ctx, o.KwokBinary,
		"--kubeconfig", o.Kubeconfig,
		"--config", config,
		"--cidr", podCIDR,
		"--manage-all-nodes=false",
		"--manage-nodes-with-annotation-selector", kwokAnnotation+"="+kwokValue,
		"--node-lease-duration-seconds", "40",
	)
	cmd.Dir, cmd.Stdout, cmd.Stderr = o.Dir, log, log
	// It looks for a user's configuration in HOME.
	cmd.Env = append(cmd.Environ(), "HOME="+o.Dir, "NO_PROXY=127.0.0.1,localhost")
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("run %s: %w", o.KwokBinary, err)
	}
	done := make(chan error, 1)
	go func() {
		err := ended(ctx, cmd, log.Name())
		if err != nil {
			o.Logger.Error("the nodes have lost their kubelet", "error", err)
		}
		done <- err
		close(done)
	}()
	return done, nil
}

func ended(ctx context.Context, cmd *exec.Cmd, log string) error {
	err := cmd.Wait()
	switch {
	case ctx.Err() != nil: // ctx has stopped it
		return nil //nolint:nilerr // how it took being ended is of no interest
	case err == nil:
		return fmt.Errorf("kwok ended by itself, so no node stays alive: see %s", log)
	}
	return fmt.Errorf("kwok ended by itself, so no node stays alive: see %s: %w", log, err)
}
