package review

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/confine"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/approval"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/evaluate"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
	"github.com/plumbline-dev/plumbline/reconcile/simulate"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// Tools are what a Step works with.
type Tools struct {
	// Client reads the cluster, uncached.
	Client client.Reader
	Store  evaluate.Store
	Helm   upgrade.Helm
	// CRDs are those of a version where its charts are out of reach, and why there are none.
	CRDs    func(version string) ([]*apiextensionsv1.CustomResourceDefinition, error)
	Schemas *schema.Cache
	Confine *confine.Runner
	// CABundle is the cluster's authorities, PEM in base64; empty if they are not known.
	CABundle string
	// Ask asks AWS, of the EKS cluster of a name in a region, what selectors resolve to; nil does not
	// ask. NotAsked is then why.
	Ask      func(cluster, region string) plan.Ask
	NotAsked string
	// Landing says which pods of the pools that leave by a Plan find no place elsewhere, by pool; nil if nobody asks.
	Landing func(ctx context.Context, made *plan.Plan, live plan.Live) (map[string][]plan.Unschedulable, error)
	// InstanceTypes returns the NodePools that no instance type of a region meets once a Plan is applied, and a sentence on each,
	// and on those of which that is unknown; nil if nobody asks.
	InstanceTypes func(ctx context.Context, region string, made *plan.Plan, live plan.Live) (unlaunchable, words []string)

	// Nodes is the API server of the cluster whose nodes are kept, and CachedNodes its watch cache; nil if they
	// are the NodeSync's own.
	Nodes, CachedNodes client.Reader
	// Cached is the daemon's watch cache, and Definitions what passes share of it; nil without a
	// daemon, which reads all by Client.
	Cached      client.Reader
	Definitions *cluster.Definitions
	// Own is the daemon's pod; nil looks for it.
	Own *plan.Host
	// Grants report whether a Secret has to name the hosts that it is for; nil believes the person
	// who reads it.
	Grants *grant.Policy
}

// Step is the preview of one commit.
type Step struct {
	Tools
	// Sync is the NodeSync, which is only read. Its spec.path is the folder in the Snapshot.
	Sync     *v1alpha1.NodeSync
	Snapshot *render.Snapshot
	Now      time.Time
	// Withheld reports whether no Secret is read, nor values of the chart out of the cluster: who
	// wrote the commit is not trusted.
	Withheld bool
	// HideValues and HideCredential take what came out of Secrets.
	HideValues     func([]string)
	HideCredential func(string)
}

// Preview is what the daemon would do for a commit.
type Preview struct {
	// Desired is what Git wants.
	evaluate.Desired
	Live plan.Live
	// Removal is how entries leave that the commit removes.
	Removal v1alpha1.RemovalPolicy
	// Plan is what is done with definitions; nil if Stopped reports that nothing is, unless
	// that only waits for the cluster.
	Plan *plan.Plan
	// Stopped is why nothing of the commit is done, as the reconcile says it.
	Stopped error
	// ApprovedInGit reports whether plumbline.yaml approves all that is held, and that this counts;
	// ApprovesInGit that a commit may.
	ApprovedInGit, ApprovesInGit bool
	// ChartsChange is what is done with the charts; empty if nothing is, or where that is
	// not known.
	ChartsChange string
	// ChartsUnknown reports whether this is not known, and VersionChanges from which version of Karpenter to which
	// other one the commit leads then; empty if it does not.
	ChartsUnknown  bool
	VersionChanges string
	// ChartsRefused is why the charts stay as they are, where definitions are applied all the
	// same.
	ChartsRefused error
	// Unlaunchable are the NodePools that no instance type meets once the Plan is applied, if AWS was queried.
	Unlaunchable []string
	// Warnings are sentences on what a person should know, and on what could not be found
	// out here.
	Warnings []string
}

// preview is one Preview in the making.
type preview struct {
	*Step
	// sync is a copy of the NodeSync, with what a first install would fix.
	sync *v1alpha1.NodeSync
	view *cluster.View
	out  *Preview
}

// Make evaluates the commit. An error is one of reading, not of the commit.
func (s *Step) Make(ctx context.Context) (*Preview, error) {
	in := *s
	in.Cached, in.Nodes = cmp.Or(in.Cached, in.Client), cmp.Or(in.Nodes, in.Client)
	in.CachedNodes = cmp.Or(in.CachedNodes, in.Nodes)
	p := preview{
		Step: &in, sync: s.Sync.DeepCopy(), out: &Preview{Removal: s.Sync.Spec.Removal},
		view: &cluster.View{Cached: in.CachedNodes, Uncached: in.Nodes, Definitions: in.Definitions, Memory: &cluster.Memory{}},
	}
	ev, err := p.evaluate(ctx)
	if err != nil {
		var unread *readError
		if OutOfReach(err) {
			return nil, err
		}
		if errors.As(err, &unread) {
			return nil, unread.error
		}
		p.out.Stopped, p.out.ChartsRefused, ev.Plan.Plan = err, nil, nil
	}
	p.out.Desired, p.out.Live, p.out.Plan = ev.Desired, ev.Live, ev.Plan.Plan
	p.warnOfNodes(ctx, ev)
	p.warnOfInstanceTypes(ctx, ev)
	if ev.Desired.Set != nil {
		for _, words := range rollout.SwitchedOff(rollout.Pools(ev.Desired.Set, nil), ev.Desired.Values.Merged) {
			p.warn("%s", words)
		}
	}
	p.weighApprovals()
	return p.out, nil
}

// readError is an error of reading the cluster, which says nothing of the commit.
type readError struct{ error }

// evaluate evaluates the commit as the daemon would, until it would begin to change the charts, and finds out whether it would.
func (p *preview) evaluate(ctx context.Context) (evaluate.Evaluation, error) {
	in := p.inputs()
	ev, err := evaluate.Configure(ctx, in, evaluate.Evaluation{})
	if err != nil {
		ev.Desired.Renamed = nil
		return ev, err
	}
	if ev.Desired.Renamed != nil {
		p.warn("unless AWS confirms the new name of the cluster: %v", ev.Desired.Renamed)
	}
	live, err := p.view.Live(ctx)
	if err != nil {
		return ev, &readError{fmt.Errorf("read what lives: %w", err)}
	}
	ev.Live = live.With(&p.sync.Status)
	ev, err = evaluate.Evaluate(ctx, in, ev)
	p.seeCharts(ev)
	p.sync.Status.Karpenter = ev.Desired.Fixed(p.sync.Status.Karpenter)
	if err != nil || p.out.ChartsRefused != nil {
		return ev, err
	}
	return p.changeCharts(ctx, in, ev)
}

// warnOfNodes says, if nodes are terminated by the commit, which DaemonSets that they need until their last pod has stopped would be evicted from them,
// and which nodes in reserved capacity Karpenter terminates before their replacements are there.
func (p *preview) warnOfNodes(ctx context.Context, ev evaluate.Evaluation) {
	if ev.Desired.Set != nil {
		for _, r := range ev.Desired.Set.Rescues {
			p.warn("%s", plan.RescueWords(r))
		}
	}
	made := ev.Plan.Plan
	if made == nil {
		return
	}
	if words := made.DaemonSets.Trouble(); words != "" && made.Disrupts() {
		p.warn("%s", words)
	}
	nodes := ev.Live.ReservedThatLeave(made.Removals, p.sync.Spec.Removal)
	if len(nodes) == 0 {
		return
	}
	switch on, err := p.inputs().ChartStep(ev).On(ctx, plan.TerminateFirst); {
	case err != nil:
		p.warn("whether Karpenter's feature gate %s is on is not known: %v", plan.TerminateFirst, err)
	case on:
		p.warn("%s", plan.EndFirst(nodes))
	}
}

// warnOfInstanceTypes names NodePools that can launch no node, as EC2 offers no instance type that meets them. That refuses
// nothing: EC2 may offer one tomorrow.
func (p *preview) warnOfInstanceTypes(ctx context.Context, ev evaluate.Evaluation) {
	if p.InstanceTypes == nil || ev.Plan.Plan == nil {
		return
	}
	_, region := ev.Desired.Cluster(p.sync.Status.Karpenter)
	unlaunchable, words := p.InstanceTypes(ctx, region, ev.Plan.Plan, ev.Live)
	p.out.Unlaunchable, p.out.Warnings = unlaunchable, append(p.out.Warnings, words...)
}

func (p *preview) warn(format string, args ...any) {
	p.out.Warnings = append(p.out.Warnings, fmt.Sprintf(format, args...))
}

// inputs are what the commit is evaluated with. It has nothing of what other NodeSyncs have in Git, how commits stand to each other, and who approves.
func (p *preview) inputs() evaluate.Inputs {
	timeout, retry := p.sync.GetTimeout(), p.sync.GetRetryInterval()
	in := evaluate.Inputs{
		Wanted: evaluate.DesiredStep{
			DesiredTools: evaluate.DesiredTools{
				Cached: p.Cached, Uncached: p.Client, Store: p.Store, Releases: p.Helm, Schemas: p.Schemas, Confine: p.Confine,
				Grants: p.grants(), CABundle: p.CABundle,
			},
			Snapshot: p.Snapshot, Sync: p.sync, Observed: p.sync.Generation, View: p.view, Memory: &evaluate.DesiredMemory{},
			Now: p.Now, Timeout: timeout, Retry: retry, Secret: p.secret, Labelled: p.labelled, HideValues: p.HideValues, HideCredential: p.HideCredential,
		},
		Planning: evaluate.PlanStep{
			PlanTools: evaluate.PlanTools{Cached: p.Cached, Uncached: p.Client, CABundle: p.CABundle, Confine: p.Confine},
			Sync:      p.sync, Before: p.sync.Status, Snapshot: p.Snapshot, Memory: &evaluate.PlanMemory{}, Now: p.Now, Retry: retry,
			Ask: p.Ask, NotAsked: p.NotAsked, Loads: cluster.Loads(p.Nodes), Hosts: p.hosts,
			DaemonSets: func(ctx context.Context, claims []plan.NodeClaim) (plan.DaemonSets, time.Time) {
				return p.view.DaemonSets(ctx, claims, p.Now, retry)
			},
		},
		Charts: upgrade.Step{
			Tools: upgrade.Tools{Helm: p.Helm, Schemas: p.Schemas}, Wanted: upgrade.Wanted{Revision: p.Snapshot.Revision},
			Sync: p.sync, View: p.view, Memory: &upgrade.Memory{}, Now: p.Now, Timeout: timeout, Retry: retry,
		},
		Record: &record{preview: p}, WithoutCharts: p.withoutCharts,
	}
	if p.Landing != nil {
		in.Planning.Landing = p.land
	}
	return in
}

// weighApprovals finds out whether the commit approves itself what it is held for.
func (p *preview) weighApprovals() {
	made := p.out.Plan
	if p.out.ApprovesInGit = approval.FromGit(p.Sync.Spec.Guard); !p.out.ApprovesInGit || made == nil || p.out.Karpenter == nil {
		return
	}
	p.warnOfOtherApprovals(made)
	if made.Approvable == nil {
		return
	}
	held := approval.Publish(p.Sync.Status.Held, made.Approvable, p.Sync.GetNeededApprovals())
	all, _ := Counts(made)
	p.out.ApprovedInGit = len(made.Approvable.Entries) == all &&
		approval.InGit(held, p.Sync.Spec.Guard, p.out.Karpenter.Approve, p.Sync.Status.UsedGitApprovals, p.Snapshot.Revision)
}

// warnOfOtherApprovals names digests in plumbline.yaml that approve another plan than this one: once the commit is merged, a later commit
// with that plan is not held.
func (p *preview) warnOfOtherApprovals(made *plan.Plan) {
	used := p.Sync.Status.UsedGitApprovals
	if made.Approvable != nil {
		used = append(slices.Clone(used), made.Approvable.Digest)
	}
	for _, typed := range p.out.Karpenter.Approve {
		if !slices.ContainsFunc(used, func(digest string) bool { return render.NamesDigest(typed, digest) }) {
			p.warn("%s approves %s, which is not the digest of this plan: a commit that has it would not be held", render.FileName, typed)
		}
	}
}

// land finds out which pods of the pools that a Plan removes cannot be scheduled elsewhere.
func (p *preview) land(ctx context.Context, _ *render.Set, made *plan.Plan, live plan.Live) (plan.Landing, time.Time) {
	nowhere, err := p.Landing(ctx, made, live)
	if err != nil {
		p.warn("whether the pods of %s find a place elsewhere is not known: %v", strings.Join(made.Lands(), ", "), err)
		return plan.Landing{}, time.Time{}
	}
	return plan.Landing{Known: true, Nowhere: nowhere}, time.Time{}
}

// WhatIf simulates what becomes of pods by a Plan, with what the guard holds of it: that is what a
// person is about to release. live is what the Plan was made of.
func WhatIf(ctx context.Context, made *plan.Plan, live plan.Live, c *simulate.Capture, offers simulate.Offers) (*simulate.Outcome, error) {
	commit, notes := simulate.CommitOf(made, live, c.Definitions)
	out, err := simulate.Run(ctx, c, commit, offers)
	if err != nil {
		return nil, err
	}
	out.Notes = append(out.Notes, notes...)
	return out, nil
}
