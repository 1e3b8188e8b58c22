package teardown

import (
	"context"
	"maps"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// mayAsk says whether it is time for a question to EC2. A last one that lies
// ahead was asked before the clock was put back.
func (d *drive) mayAsk() bool {
	return d.AskedAt.IsZero() || d.Now.Before(d.AskedAt) || !d.Now.Before(d.AskedAt.Add(d.AskEvery))
}

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
