package main

import (
	"context"
	"errors"
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
	stays := t.v.stays
	defer func() { t.v.stays = stays }()
	if err := t.allStays(ctx); err != nil {
		return err
	}
	first, err := t.sweepable(ctx)
	if err != nil || len(first) == 0 {
		return err
	}
	words := "left in AWS: " + leftover.Listed(first)
	if t.until.Sub(t.v.now()) < t.v.sweepAfter {
		t.show.say(words + "; nothing is swept: less than " + short(t.v.sweepAfter) + " is left of --timeout, and what is deleted has to be left that long")
		return nil
	}
	t.show.say(words + "; what is so in " + short(t.v.sweepAfter) + " is deleted")
	if err := pauseFor(ctx, t.v.sweepAfter); err != nil {
		return err
	}
	asked := t.v.now()
	switch err := t.confirm(ctx, "this is deleted in AWS for good", t.v.cluster); {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errUnconfirmed):
		t.show.say("not confirmed: nothing was swept")
		return nil
	case err != nil:
		return err
	}
	t.until = t.until.Add(t.v.now().Sub(asked)) // a confirmation may take its time
	return t.endLeft(ctx, &endRun{scope: t.sweeps(), shown: shownIDs(first), renew: t.allStays})
}

// allStays reads what of the cluster stays: of any NodePool, EC2NodeClass and NodeClaim that there is, all.
func (t *teardown) allStays(ctx context.Context) error {
	all, err := t.c.leaving(ctx, &v1alpha1.NodeSync{}, t.downTo)
	if err != nil {
		return err
	}
	t.v.stays = all.stays
	return nil
}

// sweeps is what a sweep may delete of a cluster that lives.
func (t *teardown) sweeps() leftover.Scope {
	return leftover.Scope{Cluster: t.v.cluster, Leftovers: true}
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
	ending := leftover.Ends(answers, known, t.sweeps())
	t.saySpared(ending)
	return ending.Ends, nil
}
