package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/apply/changes"
	"github.com/plumbline-dev/plumbline/reconcile/conclude"
	"github.com/plumbline-dev/plumbline/reconcile/desired"
	"github.com/plumbline-dev/plumbline/reconcile/fetch"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/policy"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render"
)

// fetch takes the newest revision, or the one at hand where none is due.
func (p *pass) fetch(ctx context.Context) error {
	step := p.fetchStep()
	found, err := step.Fetch(ctx)
	p.Join(step.Findings)
	p.snapshot, p.Unfetched = found.Snapshot, found.Unfetched
	if !found.News.IsZero() {
		p.memory.policy.Fetched(found.News)
	}
	return err
}

// prepare fetches and renders while the caches fill. What goes wrong the pass finds, too, and reports.
func (p *pass) prepare(ctx context.Context) {
	if !p.Settings.Takes(p.sync) || p.sync.Namespace != p.Settings.Namespace || p.sync.Rests() || !p.sync.DeletionTimestamp.IsZero() {
		return
	}
	p.Disk.Prefetch(p.name().String(), p.Values)
	if p.watches.Serves() && p.fetch(ctx) == nil && p.verify(ctx) == nil {
		_ = p.desiredStep().Prepare(ctx)
	}
}

// verify checks that the revision has the signatures that the NodeSync asks for,
// before anything of it is read.
func (p *pass) verify(ctx context.Context) error {
	step := p.fetchStep()
	err := step.Verify(ctx, p.snapshot)
	p.Join(step.Findings)
	p.Unverified = step.Unverified
	return err
}

func (p *pass) fetchStep() *fetch.Step {
	return &fetch.Step{
		Tools: fetch.Tools{Source: p.Source, Secret: p.readSecret, Grants: p.Settings.Grants, HideCredential: p.memory.conclude.HideCredential},
		Sync:  p.sync, Memory: &p.memory.fetch, Now: p.now, Pushed: p.memories.Pushed(p.name()),
	}
}

// readSecret reads a Secret of the NodeSync's namespace uncached: those watched would be kept.
func (p *pass) readSecret(ctx context.Context, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	return secret, p.Uncached.Get(ctx, client.ObjectKey{Namespace: p.sync.Namespace, Name: name}, secret)
}

// resolveCharts finds the charts of the version in Git, and the schema of the
// definitions: that of their CRDs, or of what is in force where the change is known not
// to be made.
func (p *pass) resolveCharts(ctx context.Context) error {
	return p.desire(func(step *desired.Step, ctx context.Context) (err error) {
		p.NotUpgraded, err = step.ResolveSchema(ctx, func() (error, error) {
			charts := p.chartStep()
			why, err := charts.Refused()
			p.Join(charts.Findings)
			return why, err
		})
		return err
	})(ctx)
}

// render makes the Set, notes what this NodeSync has in Git, and wakes those that wait for
// that.
func (p *pass) render(ctx context.Context) error {
	if err := p.desire((*desired.Step).Render)(ctx); err != nil {
		return err
	}
	_, generation, began := p.memory.fetch.Last()
	for _, name := range p.registry.Remember(p.name(), p.sync.UID, p.want.Set, generation, began) {
		p.Look(name)
	}
	return nil
}

// desire takes one step towards what Git wants, from what the steps before it have
// found.
func (p *pass) desire(take func(*desired.Step, context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		step := p.desiredStep()
		err := take(step, ctx)
		p.Join(step.Findings)
		return err
	}
}

func (p *pass) desiredStep() *desired.Step {
	return &desired.Step{
		Tools: desired.Tools{
			Cached: p.Client, Uncached: p.Uncached, Store: p.Charts, Releases: p.Install, Schemas: &p.schemas,
			Confine: p.Confine, Shared: p.Values, Disk: p.Disk, Grants: p.Settings.Grants, CABundle: p.Settings.CABundle(),
			KarpenterNamespaces: p.Settings.KarpenterNamespaces,
		},
		Desired: &p.want, Snapshot: p.snapshot, Sync: p.sync, Observed: p.before.Status.ObservedGeneration,
		View: p.view, Live: p.live, Memory: &p.memory.desired, Now: p.now, Timeout: p.sync.GetTimeout(), Retry: p.sync.GetRetryInterval(), Attempt: fmt.Sprint(p.memory.fetch.Attempt()),
		NotUpgraded: p.NotUpgraded,
		Secret:      p.readSecret,
		Labelled: func(ctx context.Context) (client.Reader, func() time.Duration, error) {
			return p.watches.Labelled(ctx, p.Labelled, p.Uncached)
		},
		HideValues: p.memory.conclude.HideValues, HideCredential: p.memory.conclude.HideCredential,
	}
}

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
			Cached: p.Client, Uncached: p.Uncached, Expire: p.Client, ServesApprovals: p.watches.ServesApprovals, Registry: &p.registry, Namespace: p.Settings.Namespace, Takes: p.Settings.Takes, Confine: p.Confine,
			CABundle: p.Settings.CABundle(), Fetch: p.fetchFor, Look: p.Look,
		},
		Sync: p.sync, Before: p.before.Status, Recorded: p.memory.removal.AppliedRevision(), Snapshot: cmp.Or(p.snapshot, last),
		Set: p.want.Set, Karpenter: p.want.Karpenter, Schema: p.want.Schema, Live: p.live, Applied: p.memory.changes.Forms(), Memory: &p.memory.policy,
		Now: p.now, Retry: p.sync.GetRetryInterval(),
		Hosts: p.view.PoolHostsOf(p.sync.Status.Karpenter, p.Settings.Own, p.live.NodeClaims), Resolve: p.resolveStep().Answers, Loads: observe.Loads(p.view.Uncached), DaemonSets: p.view.DaemonSetsOf(p.live.NodeClaims, p.now, p.sync.GetRetryInterval()),
		Landing: p.memory.landing.For(p.Landing, p.now, p.want.Set.Fingerprint(), p.sync.GetAnnotations()[meta.ReconcileRequestAnnotation], func() { p.Look(p.name()) }), Order: branch.Order, ChangesCharts: func() bool { return p.chartStep().Changes() },
		FindOrder: branch.FindOrder, Read: branch.Read,
	}
}

// applyPlan writes what changed.
func (p *pass) applyPlan(ctx context.Context) error {
	step := p.changesStep()
	result := step.Run(ctx)
	p.Join(step.Findings)
	p.did.Written, p.Unwritten = result.Written, result.Unwritten
	if p.live.Served { // else no object was read: which of them were changed or deleted is unknown
		p.Drifts = conclude.DriftsOf(p.plan.Plan, result.Written)
	}
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

// notePartlyApplied records that something of this revision is, or is about to be, written: a HEAD that is older than it lacks what was not taken out of Git.
func (p *pass) notePartlyApplied() {
	if p.plan.Doubt == nil {
		p.sync.Status.PartlyAppliedRevision = p.revision()
	}
}

// changesStep is the work on the definitions, from what the steps before it have found.
func (p *pass) changesStep() *changes.Step {
	return &changes.Step{
		Tools: changes.Tools{Client: p.Nodes.Client, Uncached: p.Nodes.Uncached, Arrivals: &p.arrivals, StillLeader: p.Settings.StillLeader},
		Owner: plan.OwnerOf(p.sync.Namespace, p.sync.Name), Plan: p.plan.Plan, Set: p.want.Set, Live: p.live,
		CRDs: p.stages.CRDs, Controller: p.stages.Controller, Changing: p.stages.Changing,
		Memory: &p.memory.changes,
		Now:    p.now, Timeout: p.sync.GetTimeout(), Retry: p.sync.GetRetryInterval(), StallAfter: p.sync.GetStallAfter(), Insist: p.insists(),
	}
}

// controllerLog is what Karpenter's controller has logged last; empty if it cannot be read.
func (p *pass) controllerLog(ctx context.Context) string {
	if p.Logs == nil || p.sync.Status.Karpenter == nil {
		return ""
	}
	return upgrade.ControllerLog(ctx, p.Nodes.Uncached, p.Logs, p.karpenterNamespace())
}

// karpenterNamespace is that of Karpenter's controller; empty before it is known.
func (p *pass) karpenterNamespace() string {
	if p.sync.Status.Karpenter == nil {
		return ""
	}
	return p.sync.Status.Karpenter.Namespace
}

// classNotReadySince reads since when an EC2NodeClass has been not Ready; zero if it cannot be read.
func (p *pass) classNotReadySince(ctx context.Context, name string) time.Time {
	kind, _ := render.KindOf(render.EC2NodeClass)
	class := &unstructured.Unstructured{}
	class.SetGroupVersionKind(kind.GVK)
	if err := p.Nodes.Uncached.Get(ctx, client.ObjectKey{Name: name}, class); err != nil {
		return time.Time{}
	}
	return observe.NotReadySince(class)
}

// observe reads whether each definition of the Set is Ready.
func (p *pass) observe(ctx context.Context) error {
	if p.stages.CRDs.Ready {
		ready, found := changes.Ready(p.want.Set, p.live, p.did.Written)
		p.memory.reasons.Explain(
			changes.Waiting{
				Live: p.live, Ready: ready, Found: &found, Namespace: p.karpenterNamespace(), StallAfter: p.sync.GetStallAfter(), Now: p.now,
				Since: func(name string) time.Time { return p.classNotReadySince(ctx, name) },
			},
			func() string { return p.controllerLog(ctx) },
		)
		p.Join(found)
		p.stages.ready = ready
	}
	return nil
}
