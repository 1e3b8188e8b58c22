package teardown

import (
	"context"
	"slices"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// decide asks Next about every removal, and again as long as it has questions
// that can be answered. A question is answered once in a pass.
func (d *drive) decide(ctx context.Context) (map[*item]v1alpha1.Removal, error) {
	for {
		next := d.consult()
		reread := d.stale()
		first := slices.ContainsFunc(d.open(), func(it *item) bool { return firstQuestion(next[it]) })
		ask := d.mayAsk(first) && slices.ContainsFunc(d.open(), func(it *item) bool {
			return wants[AskEC2](it) && it.seen.EC2 == nil && it.seen.Silence == ""
		})
		if ask {
			d.ask(ctx)
		}
		if err := d.observe(ctx, reread, d.Live); err != nil {
			return nil, err
		}
		for _, it := range reread {
			it.seen.Fresh = true
		}
		answered, err := d.answer(ctx)
		if err != nil {
			return nil, err
		}
		if !ask && !answered && len(reread) == 0 {
			return next, nil
		}
	}
}

// stale are the removals that are to be read past the cache: those that want it and, where the
// next NodeClaim of a pool is about to be ended, all pools, since what they end together is
// bounded, and the cache may lack what an earlier pass has ended of another.
func (d *drive) stale() []*item {
	open := d.open()
	ends := !d.Pace.All && slices.ContainsFunc(open, func(it *item) bool { return it.ending() > 0 })
	return slices.DeleteFunc(open, func(it *item) bool {
		return it.seen.Fresh || !wants[Reread](it) && (!ends || it.before.Kind != render.NodePool)
	})
}

// consult asks Next about every removal. What the older ones end counts against
// the turn of those after.
func (d *drive) consult() map[*item]v1alpha1.Removal {
	open := d.open()
	shares := make([]share, len(open))
	for i, it := range open {
		shares[i] = it.share(d.records.entries[it.before.UID])
	}
	shares = append(shares, d.undriven(open)...)
	next := map[*item]v1alpha1.Removal{}
	room := d.records.space()
	for i, it := range open {
		it.seen.Turn = d.Pace.turn(shares, i)
		it.seen.Full = room.lacking(it)
		next[it], it.actions = Next(it.before, it.seen, d.Now, d.StallAfter)
		room.take(it, next[it])
		shares[i].leaving += it.ending()
		shares[i].waits = next[it].Reason == ReasonTurnPending
		for _, a := range it.actions {
			if r, is := a.(Replace); is { // until it is lowered both may hold
				shares[i].granted = max(shares[i].granted, min(r.Nodes-it.seen.disrupting(), shares[i].left))
			}
		}
	}
	return next
}

// answer answers what Next wants to know before NodeClaims are ended.
func (d *drive) answer(ctx context.Context) (answered bool, err error) {
	for _, it := range d.open() {
		for _, a := range it.actions {
			switch a := a.(type) {
			case ReadPods:
				if it.seen.Pods, err = d.pods.readPods(ctx, a.Nodes, d.ownOf(it), append(d.records.workloads(), d.evictedOf()...)); err != nil {
					return false, err
				}
				if it.seen.Pods.Waiting == "" {
					if it.seen.Pods.Waiting, err = d.awaitLeft(ctx); err != nil {
						return false, err
					}
				}
				answered = true
			case AskLeader:
				it.seen.Leader, answered = d.leads(ctx), true
			}
		}
	}
	return answered, nil
}

func wants[A Action](it *item) bool {
	for _, a := range it.actions {
		if _, ok := a.(A); ok {
			return true
		}
	}
	return false
}

// leads is what Leader answers, asked once in a pass.
func (d *drive) leads(ctx context.Context) *Gate {
	if d.leader == nil {
		leads := d.Leader(ctx)
		d.leader = &leads
	}
	return d.leader
}
