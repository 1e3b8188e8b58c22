package removal

import (
	"context"
	"strings"

	"github.com/plumbline-dev/plumbline/reconcile/observe"
)

// FinishDrained ends the drain of a NodeSync that is being deleted once nothing of it is left: no object, seen
// past the cache, and no instance in EC2.
func (s *Step) FinishDrained(ctx context.Context) (Result, error) {
	if s.Sync.Keeps() || len(s.Sync.Status.Removals) > 0 {
		return Result{}, nil
	}
	if waits, err := s.awaitRelabelled(ctx); err != nil || waits {
		return Result{}, err
	}
	again, done, err := s.nothingLives(ctx)
	if err != nil || !done {
		return Result{}, err
	}
	how, err := s.nothingRuns(ctx)
	if err != nil || how == "" {
		return Result{}, err
	}
	how = strings.Join(append([]string{how}, again...), "; ")
	if err := s.Memory.applied.Drop(ctx, s.Client); err != nil {
		s.Memory.applied = nil
		return Result{}, err
	}
	return Result{Ended: how}, nil
}

// nothingLives says whether every object is gone, seen past the cache, and which NodePools another client has created
// again without a node.
func (s *Step) nothingLives(ctx context.Context) (again []string, done bool, err error) {
	if !s.Served {
		return nil, true, nil
	}
	live, err := observe.Live(ctx, s.Nodes.Uncached)
	if err != nil {
		return nil, false, err
	}
	live.Recorded = s.Recorded()
	left, err := s.Left(ctx, live)
	if err != nil {
		return nil, false, err
	}
	if len(left.Kept) > 0 {
		s.WaitFor("NodeSync/"+left.Kept[0].By, left.Kept[0].Message, left.Kept[0].Since, s.Sync.GetStallAfter())
		return nil, false, nil
	}
	if len(left.Removals) > 0 {
		s.Wait(left.Removals[0].Ref.String(), "it is still there")
		s.wakeNow()
		return nil, false, nil
	}
	again, waits := s.seeAgain(live)
	return again, !waits, nil
}
