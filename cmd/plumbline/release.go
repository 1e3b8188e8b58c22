package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// restInterval is how often the daemon looks whether it is at rest.
	restInterval = 10 * time.Second
	// little is what a daemon at rest allocates in that time at most.
	little = 16 << 20
	// trifle is what is not worth the trouble of giving back: a collection takes some
	// 30 ms of a processor, and a daemon at rest allocates this much in a minute.
	trifle = 4 << 20
)

// How much garbage there may be, in percent of what is in use, until it is collected, unless GOGC
// in the environment says another one; GOMEMLIMIT bounds both.
const (
	// often is that until a daemon that leads first rests: what its first look keeps lies
	// between what it does not, and nothing moves it later.
	often = 70
	// seldom is that afterwards: at work a daemon is twice as seldom at it as other programs,
	// and at rest the releaser keeps it small.
	seldom = 200
)

// collect trades memory at work for processor time.
func collect(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

// releaser releases memory to the system after work: a large render or a first
// look at 10,000 nodes takes several times what is kept of it, and a daemon that
// then has nothing to do collects and returns none of it for minutes. What the
// daemon needs while it works is not made less by that.
type releaser struct {
	// elected is closed when this replica leads.
	elected <-chan struct{}
	before  usage
}

// usage is the process's memory, in bytes.
type usage struct {
	// allocated is all that was ever allocated, garbage what is known to be in use
	// no more or was made since the last collection, free what is kept for later.
	allocated, garbage, free uint64
}

// NeedLeaderElection says that a replica that does not lead gives back, too.
func (*releaser) NeedLeaderElection() bool { return false }

// Start looks until the context ends.
func (r *releaser) Start(ctx context.Context) error {
	ticker := time.NewTicker(restInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if now := measure(); r.worthwhile(now) {
				debug.FreeOSMemory()
				r.settle()
			}
		}
	}
}

// settle collects seldom from now on, if the first look is over: one that does not lead has it
// before it.
func (r *releaser) settle() {
	select {
	case <-r.elected:
		collect(seldom)
	default:
	}
}

// worthwhile says whether the daemon has come to rest since the last look, and
// holds much that it does not need.
func (r *releaser) worthwhile(now usage) bool {
	rested := now.allocated-r.before.allocated < little
	r.before = now
	return rested && now.garbage+now.free > trifle
}

func measure() usage {
	samples := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples)
	allocated, objects, live, free := samples[0].Value.Uint64(), samples[1].Value.Uint64(), samples[2].Value.Uint64(), samples[3].Value.Uint64()
	return usage{allocated: allocated, garbage: objects - min(live, objects), free: free}
}
