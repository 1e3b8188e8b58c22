package fetch

import (
	"context"
	"fmt"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

// Read fetches what a suspended NodeSync follows, no older than a time, and verifies it: a
// look for the sake of another one. It returns when that fetch began. Neither the status
// nor what the NodeSync's own passes remember is touched.
func (s *Step) Read(ctx context.Context, notBefore time.Time) (*render.Snapshot, time.Time, error) {
	apart := &Step{Tools: s.Tools, Sync: s.Sync.DeepCopy(), Memory: &Memory{}, Now: s.Now}
	return apart.read(ctx, notBefore)
}

func (s *Step) read(ctx context.Context, notBefore time.Time) (*render.Snapshot, time.Time, error) {
	snapshot, began, err := s.fetchNow(ctx, notBefore)
	if err != nil {
		return nil, began, err
	}
	if err := s.Verify(ctx, snapshot); err != nil {
		return nil, began, err
	}
	applied := s.Sync.Status.LastAppliedRevision
	older := applied != "" && snapshot.Commit != render.CommitOf(applied) && s.Order(render.CommitOf(applied)) == source.OrderOlder
	if last := s.Sync.Status.LastVerified; older || last != nil && last.Newer != nil {
		// What it lacks says nothing: the host lags behind.
		return nil, began, fault.OlderRevision(fmt.Errorf("%s is older than what was applied", render.ShortRevision(snapshot.Revision)))
	}
	return s.timed(ctx, snapshot), began, nil
}
