package rollout

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/rollout/judge"
	"github.com/plumbline-dev/plumbline/render"
)

// BrakeStep is the brake of one reconcile of one NodeSync.
type BrakeStep struct {
	finding.Findings

	// Writer writes NodePools, and Pools reads them past the cache.
	Writer client.Writer
	Pools  client.Reader
	// Secrets reads those of the NodeSync past the cache, and Grants decide to which hosts one may be sent.
	Secrets client.Reader
	Grants  grant.Policy
	// StillLeader returns an error if the lease is no longer ours.
	StillLeader func(context.Context) error
	// Launches knows which nodes join, and EC2 why an instance was terminated; if nil, neither is queried.
	Launches *cluster.Launches
	EC2      func(ctx context.Context, region string) (Instances, error)
	// Gate reports whether one of Karpenter's feature gates is on; if nil, none is queried.
	Gate func(ctx context.Context, gate string) (on bool, err error)
	// Holds queries the conditions of spec.rollout.holdWhile.
	Holds *HoldChecker
	// Judge judges the workloads of a wave. Failing returns the workloads that fail on nodes, compared with the old ones, in
	// addition to earlier ones. NotReady returns the names of the nodes of a NodePool that are NotReady. Waves remembers the
	// results; losing them costs time.
	Judge    func(ctx context.Context, wave judge.Wave) (judge.Verdict, error)
	Failing  func(ctx context.Context, nodes, old, earlier []string) ([]string, error)
	NotReady func(ctx context.Context, pool string) ([]string, error)
	Waves    *WaveMemory

	// Sync is the NodeSync, with the status of its last reconcile.
	Sync *v1alpha1.NodeSync
	Set  *render.Set
	Live plan.Live
	// Leaving are NodePools that were removed from Git and whose removal has not started: Karpenter still replaces their
	// nodes, and their budgets are those in the cluster.
	Leaving []*plan.Object
	// Changes are those of the Plan, and Written are the definitions that this reconcile has written.
	Changes []plan.Change
	Written map[render.Ref]bool
	// Rollout is the one in progress; nil if there is none. Outdated and Unknown are those of Rollouts.
	Rollout  *v1alpha1.Rollout
	Outdated map[string][]string
	Unknown  bool
	// Nodes are the nodes that do not match. UnknownPools are the NodePools, by name, of which these are unknown.
	Nodes        []plan.Outdated
	UnknownPools map[string]bool
	// Frozen is why no node may be replaced now.
	Frozen plan.Frozen
	// InForce reports whether it is unknown what Git wants now: Set is what is in the cluster, Changes are unknown, and
	// no budgets are restored.
	InForce bool
	Now     time.Time
}

// Run returns the new status of the rollout's pools, and brakes those whose brake is already recorded. A failed write
// is reported in the pool's entry: nothing else of the reconcile waits for it.
func (s *BrakeStep) Run(ctx context.Context) []v1alpha1.PoolRollout {
	s.holdDisruption(ctx)
	before := s.Sync.Status.PoolRollouts
	if s.Rollout == nil && len(s.pending()) == 0 {
		s.Waves.forget()
		s.Holds.Forget()
		s.sendEvents(ctx, before, nil)
		s.restoreBudgets(ctx, before)
		return nil
	}
	held := s.Holds.Answers(ctx, s.secrets(), s.Sync.Spec.Rollout.HoldWhile, s.Now)
	if !held.Next.IsZero() {
		s.WakeBy(held.Next)
	}
	var watchUntil *metav1.Time
	if s.Rollout != nil {
		watchUntil = s.Rollout.WatchUntil
	}
	next, wake := Next(before, BrakeSeen{
		Pools: s.pools(ctx), Policy: s.Sync.Spec.Rollout, Since: s.since(), Held: held.Held, Unasked: held.Unasked, Unreachable: held.Unreachable,
		Frozen: s.Frozen.Message, InForce: s.InForce,
		Resume:         Resumed(s.Sync.Annotations[v1alpha1.ResumeRolloutAnnotation]),
		Continue:       Resumed(s.Sync.Annotations[v1alpha1.ResumeWaveAnnotation]),
		ContinueReason: s.Sync.Annotations[v1alpha1.ResumeWaveReasonAnnotation], WatchUntil: watchUntil, Now: s.Now,
	})
	for _, at := range []time.Time{wake, s.Frozen.Until, s.Frozen.Begins} {
		if !at.IsZero() {
			s.WakeBy(at)
		}
	}
	for i := range next {
		if isNewStop(entryOf(before, next[i].Pool), next[i]) {
			s.explain(ctx, &next[i])
		}
	}
	s.sendEvents(ctx, before, next)
	for i := range next {
		s.setBudgets(ctx, &next[i], entryOf(before, next[i].Pool))
	}
	return next
}

// restoreBudgets restores the budgets of pools that no longer have outdated nodes: the next plan writes those of Git.
func (s *BrakeStep) restoreBudgets(ctx context.Context, before []v1alpha1.PoolRollout) {
	for i := range before {
		if before[i].Wave != nil || before[i].BrakedAt != nil {
			s.WakeBy(s.Now)
		}
	}
	for _, live := range s.Leaving {
		s.try(ctx, &v1alpha1.PoolRollout{Pool: live.GetName()}, s.unbrake)
	}
}

// setBudgets sets the disruption budgets of a pool by what decides about them. was is the recorded state of the pool: what
// is not recorded yet is set in the next reconcile.
func (s *BrakeStep) setBudgets(ctx context.Context, e, was *v1alpha1.PoolRollout) {
	recorded, waved := was != nil && was.BrakedAt != nil, was != nil && was.Wave != nil
	write := s.brake
	switch RulesOf(*e, s.removing(e.Pool)).Governor() {
	case ByRemoval:
		return
	case ByBrake, ByFreeze:
		if !waved && (!recorded || !was.BrakedAt.Equal(e.BrakedAt)) { // a wave is closed at once
			s.WakeBy(s.Now)
			return
		}
	case ByWave:
		write = func(ctx context.Context, e v1alpha1.PoolRollout) error { return s.limit(ctx, was, e) }
	case ByRevert, ByGit:
		if recorded || waved {
			s.WakeBy(s.Now)
			return
		}
		write = s.unbrake
	}
	s.try(ctx, e, write)
}

// since returns when the rollout started: now, if the commit that starts it is not written yet.
func (s *BrakeStep) since() metav1.Time {
	if s.Rollout == nil {
		return metav1.NewTime(s.Now).Rfc3339Copy()
	}
	return s.Rollout.Since
}

func (s *BrakeStep) secrets() Secrets {
	return Secrets{Reader: s.Secrets, Grants: s.Grants, NodeSync: client.ObjectKeyFromObject(s.Sync)}
}

// try sets, or removes, the brake of a pool as it is recorded in the status.
func (s *BrakeStep) try(ctx context.Context, e *v1alpha1.PoolRollout, write func(context.Context, v1alpha1.PoolRollout) error) {
	was := e.Failure
	e.Failure = ""
	err := write(ctx, *e)
	if err == nil {
		return
	}
	e.Failure = err.Error()
	if e.Failure != was {
		s.Warn(v1alpha1.ReasonBrakeFailed, e.Failure)
	}
	s.WakeBy(s.Now.Add(s.Sync.GetRetryInterval()))
}

// unbrake restores the budgets of a pool that was removed from Git and whose brake has ended: no Change does. The brake's
// manager gives them up, so that one of them which looks like the brake stays.
func (s *BrakeStep) unbrake(ctx context.Context, e v1alpha1.PoolRollout) error {
	live := s.leaving(e.Pool)
	if live == nil || s.InForce || s.Sync.HoldsDisruption() || !plan.BudgetsAppliedBy(live.Unstructured, v1alpha1.BrakeFieldManager) {
		return nil
	}
	ref := render.Ref{Kind: render.NodePool, Name: e.Pool}
	pool := ref.Empty()
	err := s.Pools.Get(ctx, ref.Key(), pool) // a cached one has only some of the managers
	if err == nil {
		err = s.StillLeader(ctx)
	}
	var patch []byte
	if err == nil {
		patch, err = plan.BrakeEnds(pool)
	}
	if err == nil && patch != nil {
		err = s.Writer.Patch(ctx, pool, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(v1alpha1.FieldManager))
	}
	if err != nil {
		return fmt.Errorf("resume the rollout in %s: %w", ref, err)
	}
	return nil
}

// leaving returns a NodePool that was removed from Git and whose removal has not started; nil if it is none.
func (s *BrakeStep) leaving(pool string) *plan.Object {
	if at := slices.IndexFunc(s.Leaving, func(o *plan.Object) bool { return o.GetName() == pool }); at >= 0 && s.inGit(pool) < 0 {
		return s.Leaving[at]
	}
	return nil
}

// inGit returns the index of a NodePool in the Set; negative if it is not in Git.
func (s *BrakeStep) inGit(pool string) int {
	ref := render.Ref{Kind: render.NodePool, Name: pool}
	return slices.IndexFunc(s.Set.Objects, func(o render.Object) bool { return o.Ref == ref })
}

// candidates returns the live NodePools of Git, and those that were removed from it and whose removal has not started.
func (s *BrakeStep) candidates() []*plan.Object {
	var found []*plan.Object
	for i := range s.Set.Objects {
		if live := s.Live.Objects[s.Set.Objects[i].Ref]; live != nil && s.Set.Objects[i].Ref.Kind == render.NodePool {
			found = append(found, live)
		}
	}
	for _, live := range s.Leaving {
		if s.leaving(live.GetName()) != nil {
			found = append(found, live)
		}
	}
	return found
}

// pools returns those in which the rollout has nodes, or may have, or will have once a class is reverted.
func (s *BrakeStep) pools(ctx context.Context) []BrakePool {
	first, pending := map[string]bool{}, s.pending()
	for i := range s.Changes {
		for _, pool := range s.Changes[i].BrakesFirst {
			first[pool] = true
		}
	}
	nodes, reverted, restored := s.waveNodes(), s.reverted(), s.restored()
	var pools []BrakePool
	for _, live := range s.candidates() {
		name := live.GetName()
		reasons, known := s.Outdated[name]
		was := entryOf(s.Sync.Status.PoolRollouts, name)
		if !known && !first[name] && !s.continues(was) {
			continue
		}
		pool := BrakePool{Name: name, Definition: plan.MadeBy(live, s.Live.Objects), Edited: s.InForce || plan.MadeByEdited(live, s.Changes), Reverted: len(reasons) == 0 && reverted(live), Unhealthy: !cluster.Registers(live).Ready, Uncommitted: strings.Join(reasons, ", ")}
		if s.Rollout != nil && (s.Rollout.Changes(name) || len(reasons) == 0) {
			pool.Revision, pool.From = s.Rollout.Revision, s.Rollout.From
		}
		pool.Launches, pool.Joined = s.Launches.Joins(name)
		pool.Launches = slices.DeleteFunc(pool.Launches, func(launch cluster.Join) bool { return gone(launch, s.Live.NodeClaims, s.Now) })
		pool.Pending, pool.Removed, pool.Unknown = pending[name], s.removing(name), s.UnknownPools[name]
		pool.Restores = restored[name]
		if s.Sync.Spec.Rollout.GetWaves() != nil && !pool.Unknown { // otherwise old nodes are not known to be old
			pool.Nodes, pool.Verdict = s.judged(ctx, was, nodes[name])
			pool.Closed, pool.Opens = whyClosed(live, nodes[name].count(), s.Now)
		}
		pools = append(pools, pool)
	}
	return pools
}

// continues reports whether a pool stays in the rollout although none of its nodes is known to be outdated. was is its
// recorded state, nil if there is none.
func (s *BrakeStep) continues(was *v1alpha1.PoolRollout) bool {
	return was != nil && (s.Unknown || was.Wave != nil && s.Rollout != nil)
}

// Resumed parses the annotation that resumes rollouts: which pools, each with when it was stopped.
func Resumed(annotation string) map[string]string {
	resumed := map[string]string{}
	for one := range strings.SplitSeq(annotation, ",") {
		if pool, at, found := strings.Cut(strings.TrimSpace(one), "@"); found {
			resumed[pool] = at
		}
	}
	return resumed
}

// edited returns an error for a pool whose disruption budgets plumbline may not write: with drift Report, what another
// client has changed stays, and setting and removing the brake would overwrite it. remedy is what to do instead.
func (s *BrakeStep) edited(live *unstructured.Unstructured, remedy string) error {
	if s.Sync.Spec.Drift != v1alpha1.DriftReport {
		return nil
	}
	editor, err := plan.BudgetsEditedBy(live)
	if err == nil && editor != "" {
		err = fmt.Errorf("%s changed the disruption budgets of NodePool/%s, and plumbline does not revert that because spec.drift is Report: %s",
			editor, live.GetName(), remedy)
	}
	return err
}

// brake sets the disruption budgets of a pool to Git's with the brake; to its own with the brake if it was removed from
// Git.
func (s *BrakeStep) brake(ctx context.Context, e v1alpha1.PoolRollout) (err error) {
	live, object, err := s.budgetsOf(e.Pool)
	if live == nil || err != nil || s.Sync.HoldsDisruption() {
		return err
	}
	budgets, err := plan.Braked(object)
	if err != nil {
		return err
	}
	braked, err := plan.IsBraked(live.Unstructured, budgets)
	if err != nil || braked {
		return err
	}
	if err := s.edited(live.Unstructured, `set budgets: [{nodes: "0"}] to stop the rollout`); err != nil {
		return err
	}
	if err := s.writeBudgets(ctx, live, budgets, "stop the rollout"); err != nil {
		return err
	}
	s.Wrote(corev1.EventTypeNormal, v1alpha1.ReasonBraking, fmt.Sprintf("%s has a disruption budget of 0 nodes for the reason Drifted", object.Ref))
	return nil
}

// budgetsOf returns a live NodePool whose disruption budgets the brake sets, and an object with those that are in force
// without the brake: Git's, or its own while Git's are held, wait or could not be written, and if it was removed from
// Git. live is nil if there is no brake to set.
func (s *BrakeStep) budgetsOf(pool string) (live *plan.Object, object render.Object, err error) {
	ref := render.Ref{Kind: render.NodePool, Name: pool}
	live = s.Live.Objects[ref]
	if live == nil || live.GetDeletionTimestamp() != nil || !plan.OwnerOf(s.Sync.Namespace, s.Sync.Name).Owns(live) {
		return nil, object, nil
	}
	at := s.inGit(pool)
	if at >= 0 && s.applied(ref) {
		return live, s.Set.Objects[at], nil
	}
	object, err = plan.AsInGit(ref, live)
	if err != nil {
		return live, object, err
	}
	var git []any
	if at >= 0 {
		git = plan.BudgetsOf(s.Set.Objects[at].Defaulted)
	}
	object.Defaulted, err = withBudgets(object.Defaulted, plan.WithoutLeftover(plan.BudgetsOf(object.Defaulted), git))
	return live, object, err
}

// withBudgets returns a copy of a NodePool with these disruption budgets, unless it has as many.
func withBudgets(pool *unstructured.Unstructured, budgets []any) (*unstructured.Unstructured, error) {
	if len(budgets) == len(plan.BudgetsOf(pool)) {
		return pool, nil
	}
	pool = pool.DeepCopy()
	return pool, unstructured.SetNestedSlice(pool.Object, budgets, "spec", "disruption", "budgets")
}

// applied reports whether a definition is in the cluster as it is in Git.
func (s *BrakeStep) applied(ref render.Ref) bool {
	return s.Written[ref] || !slices.ContainsFunc(s.Changes, func(c plan.Change) bool { return c.Ref == ref })
}

// writeBudgets applies the disruption budgets of a NodePool as the manager of the brake. purpose is for the error.
func (s *BrakeStep) writeBudgets(ctx context.Context, live *plan.Object, budgets []any, purpose string) error {
	return budgetWriter{s.Writer, s.StillLeader}.write(ctx, live.Unstructured, budgets, "", purpose)
}

// terminatesFirst describes which nodes of a pool are terminated before their replacements are launched; empty if none
// is. For such a node the brake comes too late.
func (s *BrakeStep) terminatesFirst(ctx context.Context, pool string) (words string) {
	which := s.withoutRoom(pool)
	if which == "" || s.Gate == nil {
		return ""
	}
	on, err := s.Gate(ctx, plan.TerminateFirst)
	switch {
	case err != nil:
		return fmt.Sprintf("; unknown whether Karpenter terminates %s before it launches the replacement: %v", which, err)
	case on:
		return fmt.Sprintf("; with feature gate %s, Karpenter terminates %s before it launches the replacement, and stopping the rollout does not restore it", plan.TerminateFirst, which)
	}
	return ""
}

// withoutRoom describes the nodes of a pool beside which there may be no room for a replacement.
func (s *BrakeStep) withoutRoom(pool string) string {
	if live := s.Live.Objects[render.Ref{Kind: render.NodePool, Name: pool}]; live != nil && plan.IsStatic(live.Unstructured) {
		return "a node of a static pool at its limit"
	}
	if len(s.Live.Reserved(pool)) > 0 {
		return "a node of a full capacity reservation"
	}
	return ""
}

// reverted returns a function that reports whether a NodePool was reverted during this freeze and its nodes are made
// from that definition, which is still Git's. A revert that the API server denies reverts nothing.
func (s *BrakeStep) reverted() func(pool *plan.Object) bool {
	recorded := map[string]string{}
	for _, r := range s.Sync.Status.RevertedPools {
		recorded[r.Pool] = r.Definition
	}
	if len(recorded) == 0 || s.InForce {
		return func(*plan.Object) bool { return false }
	}
	git := plan.MadeByGit(s.Set.Objects, s.Live.Objects)
	return func(pool *plan.Object) bool {
		definition, is := recorded[pool.GetName()]
		return is && definition == git(pool.GetName()) && !plan.MadeByUnwritten(pool, s.Changes, s.Written)
	}
}
