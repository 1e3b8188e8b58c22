package apply

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/internal/workers"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// Client is what is asked of the API server.
type Client interface {
	Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error
}

// Options say on whose behalf the Changes are applied.
type Options struct {
	// Uncached is asked before an object is made.
	Uncached Reader
	// Arrivals is shared by all Applies of the process.
	Arrivals *Arrivals
	// Owner is written on each object.
	Owner plan.Owner
	// Concurrency is the number of objects that are written at a time.
	Concurrency int
	// StillLeader returns an error when writing is no longer ours to do. It is
	// asked before each write.
	StillLeader func(context.Context) error
}

// Apply writes the Changes that write. The others are passed over.
func Apply(ctx context.Context, c Client, changes []plan.Change, options Options) Result {
	a := &applier{client: c, options: options, absent: map[render.Ref]bool{}}
	for _, kind := range render.Kinds() {
		a.stage(ctx, changes, kind)
	}
	return a.result()
}

// applier carries one Apply along.
type applier struct {
	client   Client
	options  Options
	outcomes []outcome
	// absent are the objects that could not be made.
	absent map[render.Ref]bool
	// existing are the objects of the stage that there are, where that was asked
	// for all at once.
	existing existing
}

// outcome is what became of one Change.
type outcome struct {
	written *Written
	failure *Failure
}

// stage writes all objects of one kind, several at a time.
func (a *applier) stage(ctx context.Context, changes []plan.Change, kind render.Kind) {
	var mine []*plan.Change
	for i := range changes {
		if changes[i].Ref.Kind == kind.GVK.Kind && changes[i].Action.Writes() {
			mine = append(mine, &changes[i])
		}
	}
	outcomes := make([]outcome, len(mine))
	begun := a.begin(mine)
	a.existing = a.survey(ctx, kind, begun)
	// No attempt returns an error: each has its place among the outcomes.
	_ = workers.Each(a.options.Concurrency, len(mine), func(i int) error {
		change := mine[i]
		switch {
		case change.Live == nil && !begun[change.Ref]:
			outcomes[i] = failed(change, &StaleError{Ref: change.Ref, Err: errBeingMade})
			return nil
		case change.Live == nil:
			defer a.options.Arrivals.end(change.Ref)
		}
		outcomes[i] = a.attempt(ctx, change)
		return nil
	})
	for _, o := range outcomes {
		if o.failure != nil && !o.failure.existed {
			a.absent[o.failure.Ref] = true
		}
	}
	a.outcomes = append(a.outcomes, outcomes...)
}

// attempt writes one object, unless what it names could not be made.
func (a *applier) attempt(ctx context.Context, change *plan.Change) outcome {
	if class, ok := render.Reference(change.Ref, change.Object.Desired); ok && a.absent[class] {
		return failed(change, &WaitingError{Ref: change.Ref, For: class})
	}
	written, err := a.write(ctx, change)
	if err != nil {
		return failed(change, err)
	}
	return outcome{written: written}
}

func failed(change *plan.Change, err error) outcome {
	there := change.Live != nil || errors.As(err, new(*MutatedError))
	return outcome{failure: &Failure{Ref: change.Ref, Err: err, existed: there}}
}

// mayWrite is asked before each write.
func (a *applier) mayWrite(ctx context.Context, ref render.Ref) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("write %s: %w", ref, err)
	}
	if a.options.StillLeader == nil {
		return nil
	}
	if err := a.options.StillLeader(ctx); err != nil {
		return fmt.Errorf("write %s: %w", ref, err)
	}
	return nil
}
