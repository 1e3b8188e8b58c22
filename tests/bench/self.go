package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// ownName is plumbline's name among its peers.
const ownName = "plumbline"

// self is plumbline, measured as its peers are.
type self struct{ *plumbline }

// start has nothing to do: the daemon runs in every scene.
func (self) start(context.Context) error { return nil }

func (s self) follow(ctx context.Context, _ string) error {
	_, err := s.plumbline.follow(ctx, "bench", folder, map[string]string{"guard.maxRemovedPools": fmt.Sprint(s.options.Objects)})
	return err
}

func (s self) end(ctx context.Context) error {
	return errors.Join(s.leave(ctx), s.daemon.Stop())
}

func (s self) settings() string { return strings.Join(s.flags(), " ") }

func (s self) memory() ([]int64, error) {
	held, err := watched(s.daemon.PID()).memory()
	return []int64{held.Resident}, err
}
