package bench

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// glance is how often children are looked for. One that builds a kustomization lives
// many times as long. A glance takes up to 0.3 ms of a processor that the daemon lacks.
const glance = 20 * time.Millisecond

// children are the child processes that a process had in some time.
type children struct {
	// peaks is the most memory that each had, in bytes, by its id.
	peaks map[int]int64
	end   context.CancelFunc
	ended chan struct{}
}

// watchChildren looks for children of a process, which may be started meanwhile, until
// stop.
func watchChildren(ctx context.Context, parent func() int) *children {
	ctx, end := context.WithCancel(ctx)
	c := &children{peaks: map[int]int64{}, end: end, ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		every := time.NewTicker(glance)
		defer every.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-every.C:
				c.look(parent())
			}
		}
	}()
	return c
}

// stop returns how many there were, and the most memory of one.
func (c *children) stop() (number int, peak int64) {
	c.end()
	<-c.ended
	for _, one := range c.peaks {
		peak = max(peak, one)
	}
	return len(c.peaks), peak
}

func (c *children) look(parent int) {
	lists, err := filepath.Glob(watched(parent).file("task/*/children"))
	if err != nil {
		return
	}
	for _, list := range lists {
		ids, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		for _, id := range strings.Fields(string(ids)) {
			if child, err := strconv.Atoi(id); err == nil {
				held, _ := watched(child).memory() // 0 of one that has ended
				c.peaks[child] = max(c.peaks[child], held.Peak)
			}
		}
	}
}
