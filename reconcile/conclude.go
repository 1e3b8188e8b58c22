package reconcile

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/plumbline-dev/plumbline/provision/charts/survey"
	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/karpenter"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/deletion"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/fetch"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
	"github.com/plumbline-dev/plumbline/reconcile/status"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
)

// outcome is the result of a reconcile. The last phase concludes it.
type outcome struct {
	done
	// mode is what the reconcile does.
	mode mode
	// fault is the error that stopped it; nil if there was none.
	fault *fault.Error
	// finished reports that the deletion of the NodeSync is complete.
	finished bool
	// guard and denial are the state of the deletion guard.
	guard  deletion.Answer
	denial deletion.Denial
}

// conclude turns what was found into status, events, metrics and commit statuses, and returns when the next reconcile
// is due.
func (r *reconciliation) conclude(ctx context.Context, out outcome) (ctrl.Result, error) {
	if ev := &out.evaluation; ev.Plan.Plan != nil && ev.revision.Snapshot != nil {
		ev.Plan.Note(ctx, r.sync, r.removalStep(&out.done).Relabelled)
	}
	out.guard = r.Cluster.DeletionGuard.Beside(ctx, r.Cluster.Uncached, r.Settings.Namespace, out.evaluation.Desired.Karpenter, r.now)
	if accounts, err := r.accounts(ctx); err == nil && len(accounts) > 0 {
		out.denial = r.Cluster.DeletionGuard.DeniedRecently(ctx, r.Cluster.Uncached, accounts, r.now)
	}
	work := r.conclusion(&out)
	result, err := work.Conclude(ctx)
	if err != nil {
		return result, err
	}
	return r.publishRecord(ctx, &out, work, result), nil
}

// announce reports that many changes are about to be written, and records a rollout that starts, nodes that Karpenter
// may terminate, reverts during a freeze, and that the last applied inputs are no longer all that was written.
func (r *reconciliation) announce(ctx context.Context, d done) (_ done, err error) {
	work := r.changesStep(&d)
	writes := work.Writes()
	if writes == 0 {
		return d, nil
	}
	r.notePartlyAppliedInputs(d.evaluation)
	begun := r.rollouts(&d).Begin(&r.sync.Status)
	recorded := r.recordTerminations(d.evaluation.revision.Snapshot.Revision, work.Due())
	reverts := r.recordReverts(d.evaluation.Plan.Reverted)
	conclusion := r.conclusion(&outcome{done: d})
	stored := true
	switch {
	case begun || recorded || reverts || status.Many(writes):
		r.notePartlyApplied(d.evaluation)
		conclusion.Applying = writes
		stored, err = conclusion.Announce(ctx)
	case r.before.Status.PartlyAppliedInputs == "":
		stored, err = conclusion.Record(ctx)
	}
	d.Unrecorded = !stored
	d.Work.Stored, d.Work.Saves = conclusion.Stored, conclusion.Saves
	return d, err
}

// recordTerminations records which of the changes that are about to be written let Karpenter terminate nodes without a
// replacement: the guard counts these together with those of later commits.
func (r *reconciliation) recordTerminations(revision string, due []plan.Change) (recorded bool) {
	before := r.sync.Status.RecentTerminations
	if r.sync.Spec.Guard.GetRemovalPeriod() > 0 {
		r.sync.Status.RecentTerminations = plan.RecordTerminations(before, revision, due, metav1.NewTime(r.now.Truncate(time.Second)))
	}
	return !slices.Equal(before, r.sync.Status.RecentTerminations)
}

// recordReverts records which NodePools the changes that are about to be written revert during a freeze: the next change
// of these is no revert, whatever becomes of this reconcile.
func (r *reconciliation) recordReverts(reverted []v1alpha1.RevertedPool) (recorded bool) {
	before := r.sync.Status.RevertedPools
	r.sync.Status.RevertedPools = reverted
	return !slices.Equal(before, reverted)
}

// conclusion returns the step that concludes an outcome.
func (r *reconciliation) conclusion(out *outcome) *status.Step {
	git := &out.evaluation.Desired
	tools, work := r.conclusionTools(), out.Work
	work.Durations = r.trace.Timings
	tools.History = fetch.Branch{Step: r.sourceStep(), Read: git.Read(&r.memory.desired)}
	return &status.Step{
		Tools: tools, Found: r.found(out), Work: work, Set: git.Set,
		Sync: r.sync, Before: r.before, Memory: &r.memory.conclude, Began: r.now,
	}
}

// found returns what the phases have found, in the form of the conclusion.
func (r *reconciliation) found(out *outcome) status.Found {
	ev, removals := &out.evaluation, r.removalStep(&out.done)
	rev, obs, git := &ev.revision, &ev.observed, &ev.Desired
	found := status.Found{
		Findings:  join(rev.Findings, obs.Findings, ev.Findings, out.Findings),
		Suspended: out.mode == suspended, Elsewhere: out.mode == otherNamespace, Finished: out.finished,
		Fault: out.fault, Unfetched: rev.Unfetched, Unverified: rev.Unverified, Unpulled: git.Unpulled, Unkept: out.Charts.Unkept,
		Unwritten:     out.Unwritten,
		CloudVerified: verified(out.account()), Collision: obs.Collision, SawAccount: obs.SawCollision, Unserved: obs.Unserved,
		Stages: status.Stages(git.Set, out.Charts.CRDs, out.Charts.Controller, out.Ready), RepeatedReverts: survey.Drifts(out.Charts.Paused),
		Orphaned: removals.Orphaned(), Appliers: removals.Appliers(), Guard: out.guard, Denial: out.denial,
		Drifts: out.Drifts, Held: out.Held,
		LaunchFailures: out.Nodes.LaunchFailures, Looked: out.Nodes.SawLaunches, Drifting: out.Nodes.Drifting, WatchedDrift: out.Nodes.SawDrift,
		Rollout: out.Nodes.Rollout, SawRollout: out.Nodes.SawRollout, Restored: out.Nodes.Restored, PoolRollouts: out.Nodes.PoolRollouts,
		Instances: out.Nodes.Instances, Terminations: out.Nodes.Terminations,
		IdentityConflict: out.Nodes.IdentityConflict, SawIdentity: out.Nodes.SawIdentity,
		Preflight: out.Preflight.Problems, SawPreflight: out.Preflight.Known,
	}
	if out.Images != nil {
		found.ImagesOutdated, found.SawImages = out.Images.Outdated, out.Images.Known
	}
	if k := r.sync.Status.Karpenter; k != nil {
		found.Support = supportOf(k.Version, r.now)
		found.Defects, found.SawDefects = upgrade.Defects(k.Version, git.Set), git.Set != nil
	}
	if git.Set != nil {
		own := plan.OwnerOf(r.sync.Namespace, r.sync.Name)
		found.AutoMode, found.SawAutoMode = plan.PoolOwners(ev.Live, own, git.Set, git.ServedByEKS), ev.Live.Served
		found.Missing = rollout.Missing(rollout.Pools(git.Set, ev.Live.Objects), rollout.Present(ev.Live.NodeClaims, out.Nodes.Lost))
	}
	found.Cluster, _ = git.Cluster(r.sync.Status.Karpenter)
	if rev.Snapshot != nil {
		found.Revision, found.Commit = rev.Snapshot.Revision, rev.Snapshot.Commit
	}
	if why := ev.NotUpgraded; why != nil && !upgrade.IsFrozen(why) {
		found.NotUpgraded = git.InForce(why)
	}
	if planned := ev.Plan.Plan; planned != nil {
		found.InUse, found.Extra, found.DaemonSets, found.Changed, found.Planned = planned.InUse, planned.Extra, planned.DaemonSets, planned.Before(status.MostBefore), true
	}
	return found
}

// supportOf returns what to report about upstream's support of a version of Karpenter; nil if there is nothing.
func supportOf(version string, now time.Time) *status.Support {
	notice, err := karpenter.NoticeOf(version, now)
	if err != nil || notice == nil {
		return nil // a custom tag is not a version
	}
	support := status.Support(*notice)
	return &support
}

// join joins what the phases have found, in their order.
func join(phases ...finding.Findings) (all finding.Findings) {
	for _, found := range phases {
		all.Join(found)
	}
	return all
}

// verified returns AWS's answer about the account, for the condition CloudVerified; nil if AWS was not queried.
func verified(verdict *cloud.Verdict) *status.CloudVerified {
	if verdict == nil {
		return nil
	}
	told := status.CloudVerified(*verdict)
	return &told
}

// conclusionTools are the dependencies of conclusions.
func (r *Reconciler) conclusionTools() status.Tools {
	return status.Tools{
		Client: r.Client, Events: r.Events, Metrics: r.Metrics, Meter: r.Meter, Reports: r.Reports, Notices: r.Notices,
		Now: r.Settings.Now, Namespace: r.Settings.Namespace, PageURL: r.Settings.PageURL,
	}
}
