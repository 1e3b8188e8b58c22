package githost

import (
	"context"
	"fmt"
	"syscall"
)

// Restart brings a host back that was closed: at the same addresses, with all that it had. Ending ctx ends the process.
func (h *Host) Restart(ctx context.Context) error {
	if h.stop != nil {
		return fmt.Errorf("the Git host at %s is running", h.URL)
	}
	return h.launch(ctx)
}

// Pause freezes the process: connections are accepted by the system, and nobody answers.
func (h *Host) Pause() error { return h.signal(syscall.SIGSTOP) }

// Continue lets a frozen process go on.
func (h *Host) Continue() error { return h.signal(syscall.SIGCONT) }

func (h *Host) signal(s syscall.Signal) error {
	if h.stop == nil {
		return fmt.Errorf("send %s to the Git host at %s: it is not running", s, h.URL)
	}
	if err := h.process.Signal(s); err != nil {
		return fmt.Errorf("send %s to the Git host at %s: %w", s, h.URL, err)
	}
	return nil
}
