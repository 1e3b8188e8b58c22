package reconcile

import (
	"cmp"
	"context"

	"github.com/plumbline-dev/plumbline/reconcile/apply/changes"
	"github.com/plumbline-dev/plumbline/reconcile/conclude"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/policy"
)

// makePlan weighs the Set against what lives.
func (p *pass) makePlan(ctx context.Context) (err error) {
	step := p.policyStep()
	step.RecordLost = p.memory.removal.RecordLost(plan.OwnerOf(p.sync.Namespace, p.sync.Name), p.live, p.want.Set)
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
			Cached: p.Client, Uncached: p.Uncached, Expire: p.Client, ServesApprovals: p.watches.ServesApprovals, Registry: &p.registry, Namespace: p.Settings.Namespace, Confine: p.Confine,
			CABundle: plan.CABundle(p.Settings.CertificateAuthority), Fetch: p.fetchFor, Look: p.Look,
		},
		Sync: p.sync, Before: p.before.Status, Recorded: p.memory.removal.AppliedRevision(), Snapshot: cmp.Or(p.snapshot, last),
		Set: p.want.Set, Karpenter: p.want.Karpenter, Schema: p.want.Schema, Live: p.live, Applied: p.memory.changes.Forms(), Memory: &p.memory.policy,
		Now: p.now, Retry: p.sync.GetRetryInterval(),
		Hosts: p.view.PoolHostsOf(p.sync.Status.Karpenter, p.Settings.Own, p.live.NodeClaims), Resolve: p.resolveStep().Answers, DaemonSets: p.view.DaemonSetsOf(p.live.NodeClaims, p.now, p.sync.GetRetryInterval()),
		Order: branch.Order, ChangesCharts: func() bool { return p.chartStep().Changes() },
		FindOrder: branch.FindOrder, Read: branch.Read,
	}
}

// applyPlan writes what changed.
func (p *pass) applyPlan(ctx context.Context) error {
	step := p.changesStep()
	result := step.Run(ctx)
	p.Join(step.Findings)
	p.did.Written, p.Drifts, p.Unwritten = result.Written, conclude.DriftsOf(p.plan.Plan, result.Written), result.Unwritten
	p.Held = conclude.HeldChanges(result.Held)
	switch {
	case result.Whole:
		p.sync.Status.LastAppliedRevision, p.sync.Status.LastAppliedInputs = p.snapshot.Revision, p.want.Set.Fingerprint()
		p.sync.Status.PartlyAppliedRevision = ""
	case len(result.Written) > 0:
		p.notePartlyApplied()
	}
	return nil
}

// notePartlyApplied records that something of this revision is, or is about to be,
// written: a HEAD that is older than it lacks what was not taken out of Git.
func (p *pass) notePartlyApplied() {
	if p.plan.Doubt == nil {
		p.sync.Status.PartlyAppliedRevision = p.revision()
	}
}

// changesStep is the work on the definitions, from what the steps before it have found.
func (p *pass) changesStep() *changes.Step {
	return &changes.Step{
		Tools: changes.Tools{Client: p.Client, Uncached: p.Uncached, Arrivals: &p.arrivals, StillLeader: p.Settings.StillLeader},
		Owner: plan.OwnerOf(p.sync.Namespace, p.sync.Name), Plan: p.plan.Plan, Set: p.want.Set, Live: p.live,
		CRDs: p.stages.CRDs, Controller: p.stages.Controller, Changing: p.stages.Changing,
		Memory: &p.memory.changes,
		Now:    p.now, Timeout: p.sync.GetTimeout(), Retry: p.sync.GetRetryInterval(), StallAfter: p.sync.GetStallAfter(), Insist: p.insists(),
	}
}

// observe reads whether each definition of the Set is Ready.
func (p *pass) observe(context.Context) error {
	if p.stages.CRDs.Ready {
		ready, found := changes.Ready(p.want.Set, p.live, p.did.Written)
		p.Join(found)
		p.stages.ready = ready
	}
	return nil
}
