package reconcile

import (
	"cmp"
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/policy"
	"github.com/plumbline-dev/plumbline/render"
)

// makePlan weighs the Set against what lives.
func (p *pass) makePlan(ctx context.Context) (err error) {
	step := p.policyStep()
	p.plan, err = step.Make(ctx)
	p.Join(step.Findings)
	return err
}

// policyStep is the planning, from what the steps before it have found.
func (p *pass) policyStep() *policy.Step {
	last, _, _ := p.memory.fetch.Last()
	branch := p.fetchStep()
	return &policy.Step{
		Tools: policy.Tools{
			Cached: p.Client, Registry: &p.memories.registry, Namespace: p.Settings.Namespace, Confine: p.Confine,
			Fetch: p.fetchFor,
		},
		Sync: p.sync, Before: p.before.Status, Snapshot: cmp.Or(p.snapshot, last),
		Set: p.want.Set, Karpenter: p.want.Karpenter, Schema: p.want.Schema, Live: p.live, Applied: p.memory.changes.Forms(), Memory: &p.memory.policy,
		Now: p.now, Retry: p.retryInterval(),
		Hosts:     p.poolHosts,
		Order:     branch.Order,
		FindOrder: branch.FindOrder,
	}
}

// fetchFor has a NodeSync fetch what is not newer than a time, with a pass of its own.
func (r *Reconciler) fetchFor(name types.NamespacedName, at time.Time) {
	r.memories.Push(name, at)
	r.Look(name)
}

// noteWithheld keeps in the status what is in doubt.
func (p *pass) noteWithheld() {
	if p.plan.Plan != nil && p.snapshot != nil {
		p.sync.Status.Withheld = p.plan.Withheld(p.sync)
	}
}

// rendered notes what this NodeSync has in Git, and wakes those that wait for that.
func (p *pass) rendered(set *render.Set) {
	_, generation, began := p.memory.fetch.Last()
	for _, name := range p.memories.registry.Remember(p.name(), p.sync.UID, set, generation, began) {
		p.Look(name)
	}
}
