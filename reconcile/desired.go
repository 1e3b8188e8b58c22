package reconcile

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/desired"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
)

// configure reads plumbline.yaml, and refuses a commit that moves what the first install
// has fixed.
func (p *pass) configure(ctx context.Context) error {
	return p.desire(ctx, (*desired.Step).Configure)
}

// resolveCharts finds the charts of the version in Git, and the schema of the
// definitions: that of their CRDs, or of what is in force where the change is known not
// to be made.
func (p *pass) resolveCharts(ctx context.Context) error {
	if err := p.desire(ctx, (*desired.Step).Resolve); err != nil || p.want.Charts == nil {
		return err
	}
	charts := p.chartStep()
	refused, err := charts.Refused()
	p.Join(charts.Findings)
	if err != nil {
		return err
	}
	if p.NotUpgraded = refused; refused != nil {
		return p.resolveInForce(ctx)
	}
	return p.desire(ctx, (*desired.Step).TakeSchema)
}

// resolveInForce takes the schema of what is in force.
func (p *pass) resolveInForce(ctx context.Context) error {
	return p.desire(ctx, (*desired.Step).TakeSchemaInForce)
}

// render makes the Set.
func (p *pass) render(ctx context.Context) error {
	if err := p.desire(ctx, (*desired.Step).Render); err != nil {
		return err
	}
	p.rendered(p.want.Set)
	return nil
}

// desire takes one step towards what Git wants, from what the steps before it have
// found.
func (p *pass) desire(ctx context.Context, take func(*desired.Step, context.Context) error) error {
	step := p.desiredStep()
	err := take(step, ctx)
	p.Join(step.Findings)
	return err
}

func (p *pass) desiredStep() *desired.Step {
	return &desired.Step{
		Tools: desired.Tools{
			Cached: p.Client, Uncached: p.Uncached, Store: p.Charts, Releases: p.Install, Schemas: &p.schemas,
			Confine: p.Confine, Shared: p.Values, Grants: p.Settings.Grants,
		},
		Desired: &p.want, Snapshot: p.snapshot, Sync: p.sync, Observed: p.before.Status.ObservedGeneration,
		View: p.view, Memory: &p.memory.desired,
		Now: p.now, Timeout: p.timeout(), Retry: p.retryInterval(), Attempt: fmt.Sprint(p.memory.fetch.Attempt()),
		NotUpgraded: p.NotUpgraded,
		Secret:      p.readSecret, Labelled: p.readLabelled,
		HideValues:     p.memory.conclude.HideValues,
		HideCredential: p.memory.conclude.HideCredential,
	}
}

// readLabelled reads what holds values of the chart out of its watch cache, and past it
// until that is filled.
func (p *pass) readLabelled(ctx context.Context) (reader client.Reader, listed func(), err error) {
	heard, err := p.watches.HearsLabelled(ctx)
	if err != nil || heard {
		return p.Labelled, func() {}, err
	}
	return p.Uncached, func() {
		// They may be listed, so that a watch of them will not be refused, which no
		// pass would get past.
		p.watches.WantLabelled()
		p.WakeBy(p.now.Add(finding.Soon))
	}, nil
}

// checkRename refuses a new name of the cluster that AWS does not confirm.
func (p *pass) checkRename() error {
	if p.want.Renamed == nil || p.verified() {
		return nil
	}
	return &fault.Error{Class: fault.Terminal, Reason: v1alpha1.ReasonRefused, Err: p.want.Renamed}
}

// fix records what a first install is about to fix. Until charts are brought, a
// commit may still give them to somebody else, or say where they really are.
func (p *pass) fix() {
	wanted := &v1alpha1.KarpenterStatus{
		Management: string(p.want.Karpenter.Management),
		Namespace:  p.want.Karpenter.Namespace,
		Cluster:    p.want.Karpenter.Cluster.Name,
		Region:     p.want.Karpenter.Cluster.Region,
	}
	k := p.sync.Status.Karpenter
	switch {
	case k == nil, !upgrade.Begun(k) && (k.Management != wanted.Management || k.Namespace != wanted.Namespace || k.Cluster != wanted.Cluster || k.Region != wanted.Region):
		p.sync.Status.Karpenter = wanted
	case p.want.Renamed != nil:
		k.Cluster, k.Region = wanted.Cluster, wanted.Region
	}
}

// inForceWords say why the charts are not changed, and what goes on meanwhile.
func (p *pass) inForceWords() error {
	return fmt.Errorf("%w; definitions are still applied under Karpenter %s, which is in force", p.NotUpgraded, p.want.Serving)
}
