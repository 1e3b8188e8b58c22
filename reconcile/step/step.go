// Package step defines the names of the steps of a reconcile. Metrics, and the points where tests kill the daemon, use
// these names (manifests/SPEC.md); the reconciler defines the order.
package step

import (
	"context"
	"time"
)

// Name is the name of a step, as in metrics.
type Name string

// Timing is how long one step of a reconcile took.
type Timing struct {
	Step     Name
	Duration time.Duration
}

// Trace records how long each step took. A nil Trace records nothing.
type Trace struct {
	// Now is the clock, and Begin, if not nil, is called before each step.
	Now   func() time.Time
	Begin func(Name)
	// Timings are the steps that have run, in order.
	Timings []Timing
}

// Take runs one step, and records how long it took.
func Take[T any](ctx context.Context, trace *Trace, name Name, do func(context.Context) (T, error)) (T, error) {
	if trace == nil {
		return do(ctx)
	}
	if trace.Begin != nil {
		trace.Begin(name)
	}
	began := trace.Now()
	result, err := do(ctx)
	trace.Timings = append(trace.Timings, Timing{Step: name, Duration: trace.Now().Sub(began)})
	return result, err
}

// Of is one step of a phase: it receives the phase's value, and returns it with its additions.
type Of[T any] struct {
	Name Name
	Do   func(context.Context, T) (T, error)
}

// All runs the steps of a phase in order until one fails.
func All[T any](ctx context.Context, trace *Trace, value T, steps []Of[T]) (T, error) {
	for _, s := range steps {
		next, err := Take(ctx, trace, s.Name, func(ctx context.Context) (T, error) { return s.Do(ctx, value) })
		if value = next; err != nil {
			return value, err
		}
	}
	return value, nil
}

// The steps of a reconcile, in the order in which they first run.
const (
	Listen          Name = "listen"
	AddFinalizer    Name = "addFinalizer"
	Fetch           Name = "fetch"
	Verify          Name = "verify"
	Configure       Name = "configure"
	See             Name = "see"
	VerifyCloud     Name = "verifyCloud"
	SeeCollision    Name = "seeCollision"
	ResolveCharts   Name = "resolveCharts"
	Render          Name = "render"
	SeeVanished     Name = "seeVanished"
	MakePlan        Name = "makePlan"
	InstallCharts   Name = "installCharts"
	Announce        Name = "announce"
	RecordNames     Name = "recordNames"
	ApplyPlan       Name = "applyPlan"
	Observe         Name = "observe"
	RecordApplied   Name = "recordApplied"
	SeeLaunches     Name = "seeLaunches"
	SeeNodeDrift    Name = "seeNodeDrift"
	SeeRollout      Name = "seeRollout"
	SeeInstances    Name = "seeInstances"
	SeeIdentity     Name = "seeIdentity"
	SeeImages       Name = "seeImages"
	SeeTerminations Name = "seeTerminations"
	SettleCharts    Name = "settleCharts"
	Remove          Name = "remove"
)

// The steps of a deletion, or a drain, in addition to those.
const (
	EndProtection Name = "endProtection"
	Drainable     Name = "drainable"
	SeeController Name = "seeController"
	Drain         Name = "drain"
	FinishDrained Name = "finishDrained"
	Orphan        Name = "orphan"
)
