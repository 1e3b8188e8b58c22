package soak

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/plumbline-dev/plumbline/tests/sandbox/process"
	"github.com/plumbline-dev/plumbline/tests/stories/apiproxy"
	"github.com/plumbline-dev/plumbline/tests/stories/daemon"
)

const (
	// pardoned is how long after a fault a daemon may exit on its own: it has lost the lease, and has to find out.
	pardoned = 20 * time.Second
	// restarted is the delay before an exited one is restarted.
	restarted = 2 * time.Second
	// failed is the exit code of a daemon that exits with a reason.
	failed = 1
	// lastWords is how many lines at the end of a log explain a daemon's exit.
	lastWords = 40
)

// replica is one of two daemons, one of which leads.
type replica struct {
	*daemon.Daemon
	name     string
	profiles string          // the address of its profiles
	api      *apiproxy.Proxy // its connection to the API server
	started  time.Time
	// disturbed is when the last fault ended that may cost it the lease.
	disturbed time.Time
}

func (s *soak) newReplica(name string) (*replica, error) {
	api, err := apiproxy.Start(s.sandbox)
	if err != nil {
		return nil, err
	}
	return &replica{name: name, api: api, Daemon: daemon.New(daemon.Options{
		Kube: s.sandbox.Kube, AWS: s.sandbox.AWSVariables(), Root: s.options.Root, Dir: filepath.Join(s.dir, name), Endpoint: api.Endpoint,
	})}, nil
}

// start starts the process.
func (r *replica) start(ctx context.Context) error {
	ports, err := process.FreePorts(1)
	if err != nil {
		return err
	}
	r.profiles, r.started = fmt.Sprintf("127.0.0.1:%d", ports[0]), time.Now()
	return r.Start(ctx, "--leader-elect", "--profiling-addr="+r.profiles)
}

// close stops everything that belongs to it.
func (r *replica) close() error {
	r.Close()
	return r.api.Close()
}

// leader returns the replica that leads; the first one if none does.
func (s *soak) leader(ctx context.Context) *replica {
	for _, r := range s.replicas {
		if r.Leads(ctx) == nil {
			return r
		}
	}
	return s.replicas[0]
}

// oneOf draws the replica that leads, or the other. Which one that is depends on earlier actions; the journal contains
// it.
func (s *soak) oneOf(ctx context.Context) *replica {
	leads, leader := s.draw.IntN(3) > 0, s.leader(ctx)
	for _, r := range s.replicas {
		if (r == leader) == leads {
			return r
		}
	}
	return leader
}

// revive restarts what has exited on its own, like a kubelet, and checks that it was right to exit.
func (s *soak) revive(ctx context.Context) error {
	for _, r := range s.replicas {
		if r.Running() || s.faults.stands(gone+r.name) {
			continue
		}
		pardoned := s.faults.stands(frozen+r.name, cutOff+r.name) || time.Since(r.disturbed) < pardoned || overdue(r.LogTail(lastWords))
		if err := crashed(r.ExitCode(), pardoned); err != nil {
			return fmt.Errorf("%w: daemon %s ended: %w: %w", errViolation, r.name, err, r.Err())
		}
		if time.Since(r.started) < restarted {
			continue
		}
		s.journal.say("%-14s daemon %s had ended, and starts again", "restart", r.name)
		if err := r.start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// overdue reports whether the end of a log is that of a daemon whose lease the API server did not renew in time. On a
// busy machine, that can happen without a fault; the journal shows that a daemon was restarted.
func overdue(log string) bool {
	_, after, late := strings.Cut(log, `"Failed to renew lease"`)
	return late && strings.Contains(after, "leader election lost")
}

// crashed returns an error if a process should not have exited with a code. It may only fail if it has lost the lease,
// or cannot reach the API server.
func crashed(code int, pardoned bool) error {
	switch {
	case code != failed:
		return fmt.Errorf("exit code %d is none of its own", code)
	case !pardoned:
		return errors.New("nothing had happened to it")
	}
	return nil
}
