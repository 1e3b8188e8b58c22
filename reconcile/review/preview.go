package review

import (
	"context"
	"errors"
	"fmt"
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
	// Ask asks AWS, of the EKS cluster of a name in a region, what selectors come to; nil does not
	// ask. NotAsked says then what would.
	Ask      func(ctx context.Context, cluster, region string, questions []plan.Question) map[render.Ref]plan.Answer
	NotAsked string
	// Landing says which pods of the pools that leave by a Plan find no place elsewhere, by pool; nil if nobody asks.
	Landing func(ctx context.Context, made *plan.Plan, live plan.Live) (map[string][]plan.Unschedulable, error)

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

	out  *Preview
	sync *v1alpha1.NodeSync
	view *cluster.View
	all  []v1alpha1.NodeSync
	// recordLost reports whether is unknown what was applied.
	recordLost bool
	// setBack reports whether the commit is older than what was applied.
	setBack bool
	// wanting is the way to what Git wants, which keeps its memory from step to step.
	wanting *evaluate.DesiredStep
}

// Preview is what a pass would come to.
type Preview struct {
	// Desired is what Git wants, as far as the pass comes.
	evaluate.Desired
	Live plan.Live
	// Removal is how entries leave that the commit removes.
	Removal v1alpha1.RemovalPolicy
	// Plan is what is done with definitions; nil if Stopped reports that nothing is, unless
	// that only waits for the cluster.
	Plan *plan.Plan
	// Stopped is why nothing of the commit is done, as the pass says it.
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
	// Warnings are sentences on what a person should know, and on what could not be found
	// out here.
	Warnings []string
}

// Make takes the steps of a pass. An error is one of reading, not of the commit.
func (s *Step) Make(ctx context.Context) (*Preview, error) {
	s.out, s.sync = &Preview{Removal: s.Sync.Spec.Removal}, s.Sync.DeepCopy()
	if s.Cached == nil {
		s.Cached = s.Client
	}
	if s.Nodes == nil {
		s.Nodes = s.Client
	}
	if s.CachedNodes == nil {
		s.CachedNodes = s.Nodes
	}
	s.view = &cluster.View{Cached: s.CachedNodes, Uncached: s.Nodes, Definitions: s.Definitions, Memory: &cluster.Memory{}}
	s.wanting = s.desired()
	all := &v1alpha1.NodeSyncList{}
	if err := s.Cached.List(ctx, all); err != nil {
		return nil, fmt.Errorf("list NodeSyncs: %w", err)
	}
	s.all = all.Items
	for _, take := range []func(context.Context) error{s.configure, s.see, s.resolve, s.render, s.makePlan, s.changeCharts} {
		s.out.Stopped = take(ctx)
		if !s.out.stopped() {
			continue
		}
		var unread *readError
		if errors.As(s.out.Stopped, &unread) {
			return nil, unread.error
		}
		s.out.ChartsRefused = nil
		break
	}
	s.weighApprovals()
	return s.out, nil
}

func (p *Preview) stopped() bool { return p.Stopped != nil }

// chartsAreRefused reports whether the charts are not changed, and the rest of the commit is.
func (p *Preview) chartsAreRefused() bool { return p.ChartsRefused != nil }

// readError is an error of reading the cluster, which says nothing of the commit.
type readError struct{ error }

// configure reads plumbline.yaml.
func (s *Step) configure(ctx context.Context) error {
	if err := s.wanting.Configure(ctx); err != nil {
		s.out.Renamed = nil
		return s.own(err)
	}
	if s.out.Renamed != nil {
		s.warn("unless AWS confirms the new name of the cluster: %v", s.out.Renamed)
	}
	return nil
}

// see reads what lives.
func (s *Step) see(ctx context.Context) (err error) {
	if s.out.Live, err = s.view.Live(ctx); err != nil {
		return &readError{fmt.Errorf("read what lives: %w", err)}
	}
	s.out.Live = s.out.Live.With(&s.sync.Status)
	s.wanting.Live = s.out.Live
	return nil
}

// render makes the Set.
func (s *Step) render(ctx context.Context) error {
	if err := s.own(s.wanting.Render(ctx)); err != nil {
		return err
	}
	for _, r := range s.out.Set.Rescues {
		s.warn("%s", plan.RescueWords(r))
	}
	return nil
}

// makePlan weighs the Set against what lives.
func (s *Step) makePlan(ctx context.Context) error {
	s.seeVanished(ctx)
	policy := plan.PolicyOf(s.sync, s.all, s.out.Set)
	policy.Karpenter, policy.Now, policy.CABundle = s.out.Karpenter, s.Now, s.CABundle
	policy.StatusLost = policy.StatusLost || s.recordLost
	s.setBack = policy.SetBack
	var err error
	if policy.Hosts, err = s.hosts(ctx); err != nil {
		s.warn("whether a NodePool that leaves hosts Karpenter's controller is not known: %v", err)
	}
	policy.DaemonSets, _ = s.view.DaemonSets(ctx, s.out.Live.NodeClaims, s.Now, s.sync.GetRetryInterval())
	policy.NotAsked = s.NotAsked
	var ask plan.Ask
	if s.Ask != nil {
		name, region := s.out.Cluster(s.sync.Status.Karpenter)
		ask = func(ctx context.Context, questions []plan.Question) map[render.Ref]plan.Answer {
			return s.Ask(ctx, name, region, questions)
		}
	}
	made, err := plan.MakeExact(ctx, s.out.Set, s.out.Live, policy, s.out.Schema, ask, cluster.Loads(s.view.Uncached))
	if err == nil && made.Refused == nil {
		made, err = s.land(ctx, made, policy, ask)
	}
	if err == nil && made.Refused != nil {
		made, err = nil, made.Refused
	}
	s.out.Plan = made
	s.warnOfDaemonSets()
	s.warnOfReserved(ctx)
	return err
}

// warnOfDaemonSets says, where nodes end by the commit, which DaemonSets that they need to the end
// would be evicted from them.
func (s *Step) warnOfDaemonSets() {
	if s.out.Plan == nil || !s.out.Plan.Disrupts() {
		return
	}
	if words := s.out.Plan.DaemonSets.Trouble(); words != "" {
		s.warn("%s", words)
	}
}

// warnOfReserved names the nodes in reserved capacity that the commit takes away, and Karpenter ends before their
// replacements are there.
func (s *Step) warnOfReserved(ctx context.Context) {
	if s.out.Plan == nil {
		return
	}
	nodes := s.out.Live.ReservedThatLeave(s.out.Plan.Removals, s.sync.Spec.Removal)
	if len(nodes) == 0 {
		return
	}
	switch on, err := s.charts().On(ctx, plan.TerminateFirst); {
	case err != nil:
		s.warn("whether Karpenter's feature gate %s is on is not known: %v", plan.TerminateFirst, err)
	case on:
		s.warn("%s", plan.EndFirst(nodes))
	}
}

// own leaves an error of the commit as it is, and sets one of the person's reach apart.
func (s *Step) own(err error) error {
	if err != nil && OutOfReach(err) {
		return &readError{err}
	}
	return err
}

func (s *Step) warn(format string, args ...any) {
	s.out.Warnings = append(s.out.Warnings, fmt.Sprintf(format, args...))
}

// desired is the way to what Git wants.
func (s *Step) desired() *evaluate.DesiredStep {
	return &evaluate.DesiredStep{
		DesiredTools: evaluate.DesiredTools{
			Cached: s.Cached, Uncached: s.Client, Store: s.Store, Releases: s.Helm, Schemas: s.Schemas, Confine: s.Confine,
			Grants: s.grants(), CABundle: s.CABundle,
		},
		Desired: &s.out.Desired, Snapshot: s.Snapshot, Sync: s.sync, Observed: s.sync.Generation, View: s.view, Memory: &evaluate.DesiredMemory{},
		Now: s.Now, Timeout: s.sync.GetTimeout(), Retry: s.sync.GetRetryInterval(),
		Secret: s.secret, Labelled: s.labelled,
		HideValues: s.HideValues, HideCredential: s.HideCredential,
	}
}

// weighApprovals finds out whether the commit approves itself what it is held for.
func (s *Step) weighApprovals() {
	p := s.out.Plan
	if s.out.ApprovesInGit = approval.FromGit(s.Sync.Spec.Guard); p == nil || p.Approvable == nil || s.out.Karpenter == nil {
		return
	}
	held := approval.Publish(s.Sync.Status.Held, p.Approvable, s.Sync.GetNeededApprovals())
	s.out.ApprovedInGit = len(p.Approvable.Entries) == holds(p) && approval.InGit(held, s.Sync.Spec.Guard, s.out.Karpenter.Approve, s.Sync.Status.UsedGitApprovals, s.Snapshot.Revision)
}

// holds is how much of a Plan is held, for whatever reason.
func holds(p *plan.Plan) (n int) {
	for i := range p.Changes {
		if p.Changes[i].Action == plan.Hold {
			n++
		}
	}
	for i := range p.Removals {
		if p.Removals[i].Held {
			n++
		}
	}
	return n
}

// land makes a Plan once more, where it has removals, by which of their pods find no place elsewhere: as a pass does,
// which holds them for that.
func (s *Step) land(ctx context.Context, made *plan.Plan, policy plan.Policy, ask plan.Ask) (*plan.Plan, error) {
	if s.Landing == nil || !policy.Guard.UnschedulablePods.Holds() || len(made.Lands()) == 0 {
		return made, nil
	}
	nowhere, err := s.Landing(ctx, made, s.out.Live)
	if err != nil {
		s.warn("whether the pods of %s find a place elsewhere is not known: %v", strings.Join(made.Lands(), ", "), err)
		return made, nil
	}
	policy.Landing = plan.Landing{Known: true, Nowhere: nowhere}
	return plan.MakeExact(ctx, s.out.Set, s.out.Live, policy, s.out.Schema, ask, cluster.Loads(s.view.Uncached))
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
