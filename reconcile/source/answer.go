package source

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/plumbline-dev/plumbline/render"
)

// answer is what the last fetch of a slot came to.
type answer struct {
	// began is zero where there was none yet.
	began time.Time
	// patience is how long it was given.
	patience time.Duration
	snapshot *render.Snapshot
	target   target
	err      error
}

// answers says whether the last answer will do for a request. An error is
// shared, too: a host that hangs is not waited for by each in turn.
func (s *slot) answers(ctx context.Context, req Request, patience time.Duration) bool {
	a := s.last
	if req.NotBefore.IsZero() || a.began.IsZero() || a.began.Before(req.NotBefore) {
		return false
	}
	if a.err != nil {
		return !a.cutShort(patience)
	}
	return s.store.usable() && s.store.prove(ctx, s.store.tip, req.Path) == nil
}

// cutShort says whether an answer would have been another with more patience,
// or for another caller.
func (a answer) cutShort(patience time.Duration) bool {
	if errors.Is(a.err, context.Canceled) {
		return true
	}
	var away *UnreachableError
	return errors.As(a.err, &away) && away.Timeout && patience > a.patience
}

// patienceOf a context is how long it lasts, in whole seconds, so that two with
// the same timeout have the same. One without a deadline lasts for ever.
func patienceOf(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return math.MaxInt64
	}
	return time.Until(deadline).Round(time.Second)
}
