package source

import (
	"context"

	"golang.org/x/sync/semaphore"
)

const (
	// mostIndexed is how much memory the packs may take together that are indexed at the
	// same time, by the estimate of load; one that takes more has all of it. The
	// Deployment's 768 MiB are also for the daemon and two children.
	mostIndexed = 128 << 20
	// small is what a pack may take without waiting for anyone: a push to thousands of
	// definitions takes less, and each worker has one at most.
	small = 8 << 20

	// perObject is what the index of a pack takes in memory for one object, while it is
	// made.
	perObject = 400
	// perContent is how often the largest object is in memory: what is made of a delta,
	// what it is made of, and the copy that is kept for the next.
	perContent = 3
	// mostKept is how much go-git keeps of what other deltas are made of
	// (plumbing/cache, DefaultMaxSize).
	mostKept = 96 << 20
)

// load is what a pack comes to, as its objects say.
type load struct {
	objects int64
	// content is the sum of all objects, and largest the largest of them, in bytes.
	content, largest int64
	// deltas are the objects that are made of others.
	deltas deltas
}

// memory is about what it takes to index a pack, in bytes.
func (l load) memory() int64 {
	taken := perObject*l.objects + l.largest
	if len(l.deltas) > 0 {
		taken += (perContent-1)*l.largest + min(l.content, mostKept)
	}
	return taken
}

// room is the memory that is shared by all packs that are indexed at the same time.
type room struct {
	free *semaphore.Weighted
}

func newRoom() *room { return &room{free: semaphore.NewWeighted(mostIndexed)} }

// take waits until there is room for a pack, and returns what gives it back. A small pack
// waits for nobody. The error is the context's.
func (r *room) take(ctx context.Context, l load) (back func(), err error) {
	taken := min(l.memory(), mostIndexed)
	if taken <= small {
		return func() {}, nil
	}
	if err := r.free.Acquire(ctx, taken); err != nil {
		return nil, err
	}
	return func() { r.free.Release(taken) }, nil
}
