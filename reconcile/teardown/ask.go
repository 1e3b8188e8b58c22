package teardown

import (
	"context"
	"maps"
	"time"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// mayAsk reports whether EC2 may be asked now, where first reports whether a removal has had no answer yet. A last
// question in the future was asked before the clock was put back.
func (d *drive) mayAsk(first bool) bool {
	return d.AskedAt.IsZero() || d.Now.Before(d.AskedAt) || !d.Now.Before(d.AskedAt.Add(d.pause(first)))
}

// pause is the least time between two questions to EC2. AskEvery is for asking again: the first question of a removal
// does not wait for it because another removal was asked about a moment ago.
func (d *drive) pause(first bool) time.Duration {
	if first {
		return min(soon, d.AskEvery)
	}
	return d.AskEvery
}

// firstQuestion reports whether a removal waits for its first answer from EC2 since its last NodeClaim is gone.
func firstQuestion(r v1alpha1.Removal) bool { return r.Reason == ReasonAskingEC2 }

// ask asks EC2 once about all open removals.
func (d *drive) ask(ctx context.Context) {
	d.result.AskedAt = d.Now
	query := cloud.Query{Cluster: d.Cluster}
	var about []*item
	for _, it := range d.open() {
		if it.before.Kind != render.NodePool || it.after.Phase == v1alpha1.RemovalHeld && it.seen.Hold != nil && it.seen.Exists {
			continue
		}
		about = append(about, it)
		if !it.taken {
			query.Pools = append(query.Pools, it.before.Name)
		}
		for id := range it.seen.Noted {
			query.ProviderIDs = append(query.ProviderIDs, id)
		}
	}
	var found []cloud.Instance
	silence := "the cluster's region is not known"
	if d.EC2 != nil {
		var err error
		if found, err = d.EC2.Instances(ctx, query); err == nil {
			silence = ""
		} else {
			silence = err.Error()
		}
	}
	absent := map[string]Absence{}
	for _, it := range about {
		it.seen.Silence = silence
		if silence == "" {
			it.seen.EC2 = answer(it, found)
			it.seen.Absent = absences(d.result.Absent, it.seen.Noted, it.seen.EC2.shown(), d.Now)
			maps.Copy(absent, it.seen.Absent)
		} else {
			it.seen.Shown = answer(it, found).Instances
		}
	}
	if silence == "" {
		d.result.Absent = absent
	}
}

// shown are the provider IDs in an answer.
func (a Answer) shown() map[string]bool {
	shown := map[string]bool{}
	for _, i := range a.Instances {
		shown[i.ProviderID] = true
	}
	return shown
}

// answer picks what EC2 says about one removal: what bears its pool's tag,
// unless another pool has that name by now, and what was noted.
func answer(it *item, found []cloud.Instance) *Answer {
	noted := map[string]string{}
	for providerID := range it.seen.Noted {
		if _, id, err := cloud.ParseProviderID(providerID); err == nil {
			noted[id] = providerID
		}
	}
	a := &Answer{}
	for _, i := range found {
		providerID, known := noted[i.ID]
		if !known {
			providerID = i.ProviderID()
		}
		if known || (i.Pool == it.before.Name && !it.taken) {
			a.Instances = append(a.Instances, Instance{ProviderID: providerID, State: i.State, Gone: i.Gone()})
		}
	}
	return a
}
