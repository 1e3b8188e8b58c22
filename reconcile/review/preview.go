package review

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/confine"
	"github.com/plumbline-dev/plumbline/provision/karpenter"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/approval"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/evaluate"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
	"github.com/plumbline-dev/plumbline/reconcile/simulate"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// KnownCRDs returns the CRDs of a version of Karpenter without its charts, or an error that reports why they are unknown.
type KnownCRDs func(version string) ([]*apiextensionsv1.CustomResourceDefinition, error)

// Tools are the dependencies of a Step.
type Tools struct {
	// Client reads the cluster without a cache.
	Client  client.Reader
	Store   evaluate.Store
	Helm    upgrade.Helm
	CRDs    KnownCRDs
	Schemas *schema.Cache
	Confine *confine.Runner
	// CABundle contains the cluster's certificate authorities, PEM in base64; empty if unknown.
	CABundle string
	// Ask queries AWS, for a named EKS cluster in a region, what selectors resolve to. If nil, AWS is not queried, and
	// NotAsked is the reason.
	Ask      func(cluster, region string) plan.Ask
	NotAsked string
	// Next returns the Kubernetes version after that of an EKS cluster in a region, such as 1.37, and what queries AWS for
	// what selectors resolve to with it; nil if AWS is not queried.
	Next func(ctx context.Context, cluster, region string) (kubernetes string, ask plan.Ask, err error)
	// Decrypt decrypts with a key of AWS KMS; nil if AWS is not asked.
	Decrypt evaluate.DecryptByKMS
	// Grant reads the role of Karpenter's controller; nil if AWS is not queried.
	Grant upgrade.ReadGrant
	// Landing returns the pods of the pools that a Plan removes that cannot be scheduled elsewhere, by pool; nil to
	// skip this.
	Landing func(ctx context.Context, made *plan.Plan, live plan.Live) (map[string][]plan.Unschedulable, error)
	// InstanceTypes returns the NodePools whose requirements no instance type of a region meets after a Plan, and a
	// sentence on each of them and on those for which that is unknown; nil to skip this.
	InstanceTypes func(ctx context.Context, region string, made *plan.Plan, live plan.Live) (unlaunchable, words []string)

	// Nodes is the API server of the managed cluster, and CachedNodes its watch cache; nil if that is the NodeSync's
	// own cluster.
	Nodes, CachedNodes client.Reader
	// Refusals are the watches behind CachedNodes that the API server rejects; nil if it is no cache.
	Refusals *cluster.Refusals
	// Cached is the daemon's watch cache, and Definitions what reconciles share of it; nil without a daemon, so that
	// everything is read with Client.
	Cached      client.Reader
	Definitions *cluster.Definitions
	// Own is the daemon's pod; if nil, it is looked up.
	Own *plan.Host
	// Grants reports whether a Secret must name the hosts that it may be used for; nil trusts the user who reads it.
	Grants *grant.Policy
}

// Step is the preview of one commit.
type Step struct {
	Tools
	// Sync is the NodeSync, which is only read. Its spec.path is the folder in the Snapshot.
	Sync     *v1alpha1.NodeSync
	Snapshot *render.Snapshot
	Now      time.Time
	// Withheld prevents reading Secrets and values of the chart from the cluster, because the author of the commit is
	// not trusted.
	Withheld bool
	// HideValues and HideCredential receive values read from Secrets.
	HideValues     func([]string)
	HideCredential func(string)
}

// Preview is what the daemon would do for a commit.
type Preview struct {
	// Desired is the desired state in Git.
	evaluate.Desired
	Live plan.Live
	// Removal is the policy for entries that the commit removes.
	Removal v1alpha1.RemovalPolicy
	// Rollout is that of the NodeSync.
	Rollout v1alpha1.RolloutPolicy
	// Plan is what is done with definitions; nil if Stopped means that nothing is done, unless that only waits for the
	// cluster.
	Plan *plan.Plan
	// Stopped is why nothing of the commit is applied, as the reconcile reports it.
	Stopped error
	// ApprovedInGit reports whether plumbline.yaml approves everything that is held, and that this is valid;
	// ApprovesInGit reports whether a commit may approve.
	ApprovedInGit, ApprovesInGit bool
	// ChartsChange is what is done with the charts; empty if nothing is, or if that is unknown.
	ChartsChange string
	// ChartsUnknown reports whether this is unknown. VersionChanges is then the old and new version of Karpenter; empty
	// if the commit does not change it.
	ChartsUnknown  bool
	VersionChanges string
	// ChartsRefused is why the charts are not changed although definitions are applied.
	ChartsRefused error
	// Rights are the AWS permissions that an upgrade of Karpenter adds; nil if there is none, or it adds none.
	Rights *upgrade.Rights
	// AutoMode describes whose the NodePools are, in a cluster with EKS Auto Mode; empty without it.
	AutoMode string
	// Unlaunchable are the NodePools whose requirements no instance type meets after the Plan, if AWS was queried, and
	// NodeLimits are the static ones in which Karpenter replaces no node because of limits.nodes.
	Unlaunchable []string
	NodeLimits   []plan.NodeLimit
	// Warnings are sentences on what a user should know, and on what could not be determined here.
	Warnings []string
}

// preview is the state of one Preview.
type preview struct {
	*Step
	// sync is a copy of the NodeSync, with what a first install would set.
	sync *v1alpha1.NodeSync
	view *cluster.View
	out  *Preview
}

// Make evaluates the commit. An error is one of reading, and does not concern the commit.
func (s *Step) Make(ctx context.Context) (*Preview, error) {
	in := *s
	in.Cached, in.Nodes = cmp.Or(in.Cached, in.Client), cmp.Or(in.Nodes, in.Client)
	in.CachedNodes = cmp.Or(in.CachedNodes, in.Nodes)
	p := preview{
		Step: &in, sync: s.Sync.DeepCopy(), out: &Preview{Removal: s.Sync.Spec.Removal, Rollout: s.Sync.Spec.Rollout},
		view: &cluster.View{
			Cached: in.CachedNodes, Uncached: in.Nodes, Definitions: in.Definitions, Memory: &cluster.Memory{}, Refusals: in.Refusals,
		},
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
	p.warnOfNextKubernetes(ctx, ev)
	p.out.AutoMode = plan.PoolOwners(ev.Live, plan.OwnerOf(s.Sync.Namespace, s.Sync.Name), ev.Desired.Set, ev.Desired.ServedByEKS)
	if ev.Desired.Set != nil {
		for _, words := range rollout.SwitchedOff(rollout.Pools(ev.Desired.Set, nil), ev.Desired.Values.Merged) {
			p.warn("%s", words)
		}
		off, err := p.inputs().DesiredStep(ev).SwitchedOff(ctx)
		if err != nil {
			return nil, fmt.Errorf("find Karpenter's feature gates: %w", err)
		}
		for _, words := range off {
			p.warn("%s", words)
		}
	}
	p.weighApprovals()
	return p.out, nil
}

// readError is an error of reading the cluster, which does not concern the commit.
type readError struct{ error }

// evaluate evaluates the commit like the daemon up to a change of the charts, and determines whether that would happen.
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

// warnOfNodes warns, if the commit terminates nodes, about DaemonSets that the nodes need until their last pod has
// stopped but that would be evicted, and about nodes in reserved capacity that Karpenter terminates before their
// replacements are ready. It also warns about static pools whose limits.nodes leave no room for a replacement.
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
	p.warnOfRepair(ctx, ev)
	nodes, limits := ev.Live.ReservedThatLeave(made.Removals, p.sync.Spec.Removal), plan.NodeLimits(made.Changes, ev.Live, p.Now)
	if len(nodes)+len(limits) == 0 {
		return
	}
	on, err := p.inputs().ChartStep(ev).On(ctx, plan.TerminateFirst)
	if err != nil {
		p.warn("whether Karpenter's feature gate %s is on is not known: %v", plan.TerminateFirst, err)
		return
	}
	if words := plan.TerminatedFirst(nodes); on && words != "" {
		p.warn("%s", words)
	}
	if !on {
		p.out.NodeLimits = limits
	}
	for _, limit := range limits {
		p.warn("%s", limit.Words(on))
	}
}

// warnOfRepair warns about disruption budgets that stop node repair.
func (p *preview) warnOfRepair(ctx context.Context, ev evaluate.Evaluation) {
	stopped := plan.RepairStopped(ev.Plan.Changes, p.Now)
	if k := p.sync.Status.Karpenter; len(stopped) == 0 || k == nil || k.Version == "" || karpenter.Newer(plan.RepairsWithinBudgets, k.Version) {
		return
	}
	switch on, err := p.inputs().ChartStep(ev).On(ctx, plan.NodeRepair); {
	case err != nil:
		p.warn("whether Karpenter's feature gate %s is on is not known: %v", plan.NodeRepair, err)
	case on:
		p.warn("%s: the disruption budgets allow Karpenter to repair no unhealthy node (feature gate %s): leave Unhealthy out of the reasons of the budget of 0", finding.Some(stopped), plan.NodeRepair)
	}
}

// warnOfInstanceTypes names NodePools that cannot launch a node, because EC2 offers no instance type that meets their
// requirements. It refuses nothing: EC2 may offer one later.
func (p *preview) warnOfInstanceTypes(ctx context.Context, ev evaluate.Evaluation) {
	if p.InstanceTypes == nil || ev.Plan.Plan == nil {
		return
	}
	_, region := ev.Desired.Cluster(p.sync.Status.Karpenter)
	unlaunchable, words := p.InstanceTypes(ctx, region, ev.Plan.Plan, ev.Live)
	p.out.Unlaunchable, p.out.Warnings = unlaunchable, append(p.out.Warnings, words...)
}

// warnOfNextKubernetes names the EC2NodeClasses whose AMIs the commit changes, and that launch no node, or nodes that do not
// work, once the control plane is upgraded to the next version. It refuses nothing.
func (p *preview) warnOfNextKubernetes(ctx context.Context, ev evaluate.Evaluation) {
	if p.Next == nil || ev.Plan.Plan == nil || ev.Desired.Set == nil {
		return
	}
	next, current := plan.NextQuestions(ev.Live.ClassesWithOtherAMIs(ev.Desired.Set))
	if len(next)+len(current) == 0 {
		return
	}
	cluster, region := ev.Desired.Cluster(p.sync.Status.Karpenter)
	kubernetes, ask, err := p.Next(ctx, cluster, region)
	if err != nil {
		p.warn("whether the AMIs work with the next version of Kubernetes is not known: %v", err)
		return
	}
	answers := map[render.Ref]plan.Answer{}
	if len(next) > 0 {
		maps.Copy(answers, ask(ctx, next))
	}
	if len(current) > 0 && p.Ask != nil {
		maps.Copy(answers, p.Ask(cluster, region)(ctx, current))
	}
	for _, words := range plan.NextKubernetes(plan.ClassesOf(next, current), kubernetes, answers) {
		p.warn("%s", words)
	}
}

func (p *preview) warn(format string, args ...any) {
	p.out.Warnings = append(p.out.Warnings, fmt.Sprintf(format, args...))
}

// inputs returns the inputs of the evaluation. They do not include what other NodeSyncs have in Git, the order of
// commits, or approvals.
func (p *preview) inputs() evaluate.Inputs {
	timeout, retry := p.sync.GetTimeout(), p.sync.GetRetryInterval()
	in := evaluate.Inputs{
		Wanted: evaluate.DesiredStep{
			DesiredTools: evaluate.DesiredTools{
				Cached: p.Cached, Uncached: p.Client, Store: p.Store, Releases: p.Helm, Schemas: p.Schemas, Confine: p.Confine,
				Grants: p.grants(), CABundle: p.CABundle,
			},
			Snapshot: p.Snapshot, Sync: p.sync, Observed: p.sync.Generation, View: p.view, Memory: &evaluate.DesiredMemory{},
			Now: p.Now, Timeout: timeout, Retry: retry, Secret: p.secret, Labelled: p.labelled, HideValues: p.HideValues,
			HideCredential: p.HideCredential, KMS: p.decrypt(),
		},
		Planning: evaluate.PlanStep{
			PlanTools: evaluate.PlanTools{Cached: p.Cached, Uncached: p.Client, CABundle: p.CABundle, Confine: p.Confine},
			Sync:      p.sync, Before: p.sync.Status, Snapshot: p.Snapshot, Memory: &evaluate.PlanMemory{}, Now: p.Now, Retry: retry,
			Ask: p.Ask, NotAsked: p.NotAsked, Loads: cluster.Loads(p.Nodes, p.Now), Hosts: p.hosts,
			DaemonSets: func(ctx context.Context, claims []plan.NodeClaim) (plan.DaemonSets, time.Time) {
				return p.view.DaemonSets(ctx, claims, p.Now, retry)
			},
		},
		Charts: upgrade.Step{
			Tools: upgrade.Tools{Helm: p.Helm, Schemas: p.Schemas, Grant: p.Grant}, Wanted: upgrade.Wanted{Revision: p.Snapshot.Revision},
			Sync: p.sync, View: p.view, Memory: &upgrade.Memory{}, Now: p.Now, Timeout: timeout, Retry: retry,
		},
		Record: &record{preview: p}, WithoutCharts: p.withoutCharts,
	}
	if p.Landing != nil {
		in.Planning.Landing = p.simulateLanding
	}
	return in
}

// weighApprovals determines whether the commit itself approves what it is held for.
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

// warnOfOtherApprovals warns about digests in plumbline.yaml that approve another plan: after the merge, a later commit
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

// simulateLanding determines which pods of the pools that a Plan removes cannot be scheduled elsewhere.
func (p *preview) simulateLanding(ctx context.Context, _ *render.Set, made *plan.Plan, live plan.Live) (plan.Landing, time.Time) {
	nowhere, err := p.Landing(ctx, made, live)
	if err != nil {
		p.warn("whether the pods of %s find a place elsewhere is not known: %v", strings.Join(made.NeedLanding(), ", "), err)
		return plan.Landing{}, time.Time{}
	}
	return plan.Landing{Known: true, Nowhere: nowhere}, time.Time{}
}

// WhatIf simulates what happens to pods with a Plan, including what the guard holds, because a user is about to release
// that. live is the state that the Plan was made from.
func WhatIf(ctx context.Context, made *plan.Plan, live plan.Live, c *simulate.Capture, offers simulate.Offers) (*simulate.Outcome, error) {
	commit, notes := simulate.CommitOf(made, live, c.Definitions)
	out, err := simulate.Run(ctx, c, commit, offers)
	if err != nil {
		return nil, err
	}
	out.Notes = append(out.Notes, notes...)
	return out, nil
}
