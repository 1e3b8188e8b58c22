package reconcile

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/plumbline-dev/plumbline/provision/charts/survey"
	"github.com/plumbline-dev/plumbline/reconcile/conclude"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// conclude says what the pass has found.
func (p *pass) conclude(ctx context.Context) (ctrl.Result, error) {
	p.noteWithheld()
	return p.conclusion().Conclude(ctx)
}

// manyWrites is from how many changes on they are announced: fewer are written at once.
const manyWrites = 8

// announce says that many changes are about to be written.
func (p *pass) announce(ctx context.Context) error {
	if !p.stages.CRDs.Ready || p.stages.Changing {
		return nil
	}
	writes := 0
	for _, c := range p.plan.Changes {
		switch c.Action {
		case plan.Update, plan.Adopt, plan.TakeBack:
			writes++
		case plan.Create:
			if p.stages.Controller.Ready {
				writes++
			}
		case plan.None, plan.Wait, plan.Drifted, plan.Hold, plan.Conflict, plan.Refuse:
		}
	}
	if writes <= manyWrites {
		return nil
	}
	p.notePartlyApplied()
	step := p.conclusion()
	step.Applying = writes
	err := step.Announce(ctx)
	p.did.Stored, p.did.Saves = step.Stored, step.Saves
	return err
}

// conclusion is the pass as it is concluded.
func (p *pass) conclusion() *conclude.Step {
	found := p.Found
	if p.snapshot != nil {
		found.Revision, found.Commit = p.snapshot.Revision, p.snapshot.Commit
	}
	found.Cluster, _ = p.clusterName()
	if p.account != nil {
		verdict := conclude.CloudVerified(*p.account)
		found.CloudVerified = &verdict
	}
	found.Unpulled, found.Unkept = p.want.Unpulled, p.stages.Unkept
	if p.NotUpgraded != nil {
		found.NotUpgraded = p.inForceWords()
	}
	found.Stages = p.stages.list(p.want.Set)
	if len(p.stages.Fought) > 0 {
		found.Fought = survey.Drifts(p.stages.Fought)
	}
	if p.plan.Plan != nil {
		found.InUse = p.plan.InUse
	}
	found.Noded = map[string]bool{}
	for i := range p.live.NodeClaims {
		if claim := &p.live.NodeClaims[i]; claim.Node != "" && !claim.Deleting {
			found.Noded[claim.Pool] = true
		}
	}
	return &conclude.Step{
		Tools: p.voice(), Found: found, Deeds: p.did,
		Sync: p.sync, Before: p.before, Memory: &p.memory.conclude, Began: p.now,
	}
}

// voice is what conclusions speak to.
func (p *pass) voice() conclude.Tools {
	tools := p.Reconciler.voice()
	tools.History = branch{p}
	return tools
}

func (r *Reconciler) voice() conclude.Tools {
	return conclude.Tools{
		Client: r.Client, Events: r.Events, Metrics: r.Metrics, Meter: r.Meter, Reports: r.Reports,
		Now: r.Settings.Now, Namespace: r.Settings.Namespace,
	}
}
