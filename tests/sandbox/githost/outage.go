package githost

import (
	"context"
	"fmt"
	"syscall"
)

// Restart restarts a closed host: at the same addresses, with all its data. The process is killed when ctx is done.
func (h *Host) Restart(ctx context.Context) error {
	if h.stop != nil {
		return fmt.Errorf("the Git host at %s is running", h.URL)
	}
	return h.launch(ctx)
}

// Pause freezes the process: the system accepts connections, but they get no response.
func (h *Host) Pause() error { return h.signal(syscall.SIGSTOP) }

// Continue resumes a frozen process.
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
