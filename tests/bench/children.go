package bench

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// glance is the interval of looking for children. One that builds a kustomization lives many times as long. A look
// takes up to 0.3 ms of CPU that the daemon does not get.
const glance = 20 * time.Millisecond

// children are the child processes of a process during some time.
type children struct {
	// peaks is the maximum memory of each, in bytes, by its ID.
	peaks map[int]int64
	end   context.CancelFunc
	ended chan struct{}
}

// watchChildren looks for children of a process, which may start later, until stop is called.
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

// stop returns how many there were, and the maximum memory of one.
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
			continue // the thread has exited
		}
		for _, id := range strings.Fields(string(ids)) {
			if child, err := strconv.Atoi(id); err == nil {
				held, _ := watched(child).memory() // 0 for one that has exited
				c.peaks[child] = max(c.peaks[child], held.Peak)
			}
		}
	}
}
