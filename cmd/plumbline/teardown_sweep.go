package main

import (
	"context"
	"fmt"
	"time"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/leftover"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// sweepAfter is how long something has to be left before it is deleted in a cluster that lives: a CSI driver
// makes a volume before its PersistentVolume is there, and a CNI plugin an interface before it attaches it.
const sweepAfter = time.Minute

// sweepLeft deletes what nothing in the cluster has any more, once it has been left for a while.
func (t *teardown) sweepLeft(ctx context.Context) error {
	if !t.sweep {
		return nil
	}
	// Of any NodePool and EC2NodeClass that there is, all stays.
	all, err := t.c.leaving(ctx, &v1alpha1.NodeSync{})
	if err != nil {
		return err
	}
	stays := t.v.stays
	t.v.stays = all.stays
	defer func() { t.v.stays = stays }()
	first, err := t.sweepable(ctx)
	if err != nil || len(first) == 0 {
		return err
	}
	t.show.say("left in AWS: " + leftover.Listed(first) + "; what is so in " + short(sweepAfter) + " is deleted")
	if err := pauseFor(ctx, min(sweepAfter, max(t.until.Sub(t.v.now()), 0))); err != nil {
		return err
	}
	before := map[string]bool{}
	for _, r := range first {
		before[r.ID] = true
	}
	if err := t.confirm(ctx, "this is deleted in AWS for good", t.v.cluster); err != nil {
		return err
	}
	return t.endLeft(ctx, before)
}

// sweepable is what is left now and may be deleted.
func (t *teardown) sweepable(ctx context.Context) ([]cloud.Resource, error) {
	aws, _, err := t.v.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := t.v.sameCluster(ctx, aws); err != nil {
		return nil, fmt.Errorf("nothing was swept: %w", err)
	}
	answers, known, err := t.v.answers(ctx, aws)
	if err != nil {
		return nil, err
	}
	ending := leftover.Ends(answers, known, t.scope())
	t.saySpared(ending)
	return ending.Ends, nil
}
