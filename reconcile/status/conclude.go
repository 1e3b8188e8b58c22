package status

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
)

// Conclude turns what a reconcile found into status, events, metrics, commit statuses and the time of the next
// reconcile. Nothing else does.
func (s *Step) Conclude(ctx context.Context) (ctrl.Result, error) {
	s.postFinalStatus(ctx)
	s.recallLaunches()
	s.Redact()
	s.Summarize()
	notices := s.noteNotices()
	told := s.report(ctx)
	err := s.save(ctx)
	if fault.Unstorable(err) {
		told, err = true, s.saveMinimalStatus(ctx, err)
	}
	if denied(err) {
		s.reportUnsaved(ctx, err)
		told, err = true, nil
	} else if err == nil {
		s.unmark(ctx)
	}
	if !told && err == nil {
		s.reportHistory(ctx)
	}
	s.notify(ctx, notices)
	s.sendEvents()
	s.record(ctx)
	s.Memory.read = nil
	if err != nil {
		return ctrl.Result{}, err
	}
	return s.result(), nil
}

// Summarize sets the conditions and the lists of the status.
func (s *Step) Summarize() {
	status := &s.Sync.Status
	status.Stages = s.listStages(status.Stages)
	for _, message := range missing(status.Stages, s.Before.Status.Stages) {
		s.Warn(v1alpha1.ReasonReplicaMissing, message)
	}
	if s.SawRollout {
		status.Rollout, status.PoolRollouts = s.Rollout, s.PoolRollouts
		s.wakeForRollout()
	}
	s.noteDrift()
	s.noteInstances()
	s.noteIdentity()
	s.noteTerminations()
	if s.Sync.KeepsDefinitions() { // nodes that are being terminated are not compared
		status.Rollout, status.LaunchFailing, status.Instances = nil, nil, nil
	}
	status.OpenRemovals = 0
	for _, removal := range status.Removals {
		if removal.Phase != v1alpha1.RemovalHeld && !removal.Drained() {
			status.OpenRemovals++
		}
	}
	// A NodeSync that was suspended before its first reconcile has not been looked at.
	unseen := s.Suspended && !conditions.Has(s.Sync, meta.ReadyCondition)
	if !s.Elsewhere && !unseen {
		status.ObservedGeneration = s.Sync.Generation
	}
	boundRemovals(status.Removals)
	v := s.Verdict()
	v.Message = finding.Bounded(v.Message, MaxMessage)
	s.setWaiting(v)
	s.setConditions(v)
	bound(status)
}

// timestamp returns the reconcile's time, with the precision of the status.
func (s *Step) timestamp() metav1.Time { return metav1.NewTime(s.Began.Truncate(time.Second)) }

// setWaiting records what is waited for, and since when. A wait that may not end by itself stays recorded whatever the
// verdict: after a restart, the daemon reads from it how long the wait has lasted.
func (s *Step) setWaiting(v Verdict) {
	first := s.lastingWait()
	if v.Class == Working && len(s.Waits) > 0 {
		wait := s.firstWait()
		first = &wait
	}
	if first == nil {
		s.Sync.Status.Waiting = nil
		return
	}
	since := s.timestamp()
	if old := s.Before.Status.Waiting; !first.Since.IsZero() {
		since = metav1.NewTime(first.Since.Truncate(time.Second))
	} else if old != nil && old.For == first.On {
		since = old.Since
	}
	s.Sync.Status.Waiting = &v1alpha1.Waiting{For: first.On, Message: first.Message, Since: since}
}

func (s *Step) record(ctx context.Context) {
	s.Meter.measure(s)
	s.Metrics.RecordDuration(ctx, s.Sync, s.Began)
	s.Metrics.RecordSuspend(ctx, s.Sync, s.Sync.Spec.Suspend)
	s.Metrics.RecordReadiness(ctx, s.Sync)
	s.Metrics.RecordReconciling(ctx, s.Sync)
	s.Metrics.RecordStalled(ctx, s.Sync)
}

func (s *Step) superseded() bool { return s.Fault != nil && s.Fault.Class == fault.Superseded }

// result returns when the next reconcile comes unless a watch triggers one earlier.
func (s *Step) result() ctrl.Result {
	if s.superseded() {
		return ctrl.Result{RequeueAfter: s.Memory.requeues.pace(s.Now(), finding.Soon)}
	}
	if s.Suspended || s.Elsewhere || s.Finished {
		return ctrl.Result{}
	}
	for _, f := range []*fault.Error{s.Fault, fault.Classify(s.Unpulled), fault.Classify(s.Unwritten)} {
		if f != nil && f.Class == fault.Transient {
			s.WakeBy(s.Began.Add(s.Sync.GetRetryInterval()))
		}
	}
	if s.WakeAt.IsZero() {
		s.WakeAt = s.Began.Add(s.Sync.Spec.Interval.Duration)
	}
	now := s.Now()
	return ctrl.Result{RequeueAfter: s.Memory.requeues.pace(now, s.WakeAt.Sub(now))}
}

func (s *Step) name() types.NamespacedName { return client.ObjectKeyFromObject(s.Sync) }

// manyWrites is the number of changes above which they are announced; fewer are written at once. Each announcement
// costs a write of the status and a pending commit status.
const manyWrites = 8

// Many reports whether a number of changes takes long to write.
func Many(writes int) bool { return writes > manyWrites }

// Announce writes what a reconcile is about to do, if that takes long: until then, the status would still report Ready
// for the previous revision. The conclusion overwrites it. The results are those of Record.
func (s *Step) Announce(ctx context.Context) (recorded bool, err error) {
	s.Redact()
	s.SawRollout = s.Sync.Status.Rollout != nil // a rollout that starts is recorded
	s.setConditions(s.Verdict())
	s.report(ctx)
	if err = s.writeStatus(ctx); fault.Unstorable(err) { // it may only be too long
		return s.Record(ctx)
	}
	return isRecorded(err)
}

// Record writes only what must be in the status before the changes are written: that they may be applied partly, which
// commit was taken, and which nodes they let Karpenter replace or terminate. The rest of the status stays as it is until the conclusion.
// recorded is false if the API server denies that, which the conclusion reports. The error is the API server's; a
// conflict means that the reconcile uses an outdated NodeSync.
func (s *Step) Record(ctx context.Context) (recorded bool, err error) {
	status, next := s.stored().Status.DeepCopy(), &s.Sync.Status
	status.PartlyAppliedRevision, status.PartlyAppliedInputs = next.PartlyAppliedRevision, next.PartlyAppliedInputs
	status.Rollout, status.RecentTerminations, status.RevertedPools = next.Rollout, next.RecentTerminations, next.RevertedPools
	status.Promotion = next.Promotion
	return isRecorded(s.storeStatus(ctx, status))
}

func isRecorded(err error) (bool, error) {
	if denied(err) {
		return false, nil
	}
	return err == nil, err
}

// The longest messages in a status, in bytes. The API server allows 32,768 for a condition, and etcd 1.5 MB for the
// whole object, which may have hundreds of removals.
const (
	// MaxMessage is for a condition.
	MaxMessage        = 8 << 10
	maxText           = 2 << 10
	maxRemovalMessage = 512
	// minMessage is for a record if the API server refuses longer ones.
	minMessage = 128
	// maxExcused is for the names of the workloads that do not count in waves, over all NodePools; minExcused if the API
	// server refuses more. One name may have 330 bytes, and a wave 200 of them.
	maxExcused, minExcused = 256 << 10, 32 << 10
	// maxEventMessage is the API server's limit for an event.
	maxEventMessage = 1024
)

// boundRemovals truncates the messages of removals, before they are summarized. What identifies a removal is never
// truncated: the removal depends on it.
func boundRemovals(removals []v1alpha1.Removal) {
	for i := range removals {
		removals[i].Message = finding.Bounded(removals[i].Message, maxRemovalMessage)
	}
}

// bound truncates texts from other programs, or about a commit with very many mistakes, that are too long for a status.
// Conditions are truncated before they are set: one whose message changes counts as new.
func bound(s *v1alpha1.NodeSyncStatus) {
	for i := range s.Stages {
		s.Stages[i].Message = finding.Bounded(s.Stages[i].Message, maxText)
	}
	for i := range s.Reported {
		s.Reported[i].Failure = finding.Bounded(s.Reported[i].Failure, maxRemovalMessage)
	}
	boundRollouts(s.PoolRollouts, maxRemovalMessage, maxExcused)
	if s.Waiting != nil {
		s.Waiting.Message = finding.Bounded(s.Waiting.Message, maxText)
	}
	if s.Promotion != nil {
		for i := range s.Promotion.Waits {
			s.Promotion.Waits[i].Message = finding.Bounded(s.Promotion.Waits[i].Message, maxRemovalMessage)
		}
	}
	if k := s.Karpenter; k != nil && k.Target != nil {
		k.Target.Message = finding.Bounded(k.Target.Message, maxText)
	}
}

// boundRollouts truncates the messages of stopped rollouts and waves to a number of bytes, and omits the last of the
// workloads that do not count if those of all pools have more bytes than excused.
func boundRollouts(rollouts []v1alpha1.PoolRollout, most, excused int) {
	pools := 0
	for i := range rollouts {
		if w := rollouts[i].Wave; w != nil && len(w.Excused) > 0 {
			pools++
		}
	}
	for i := range rollouts {
		p := &rollouts[i]
		p.Message, p.Failure = finding.Bounded(p.Message, most), finding.Bounded(p.Failure, most)
		if p.Proposal != nil {
			p.Proposal.Message = finding.Bounded(p.Proposal.Message, most)
		}
		w := p.Wave
		if w == nil {
			continue
		}
		w.Message = finding.Bounded(w.Message, most)
		if w.Continued != nil {
			w.Continued.Reason = finding.Bounded(w.Continued.Reason, most)
		}
		w.Excused = firstBytes(w.Excused, excused/max(pools, 1))
	}
}

// firstBytes returns the first of some names that have at most a number of bytes together.
func firstBytes(names []string, most int) []string {
	for i, name := range names {
		if most -= len(name); most < 0 {
			return slices.Clip(names[:i])
		}
	}
	return names
}

// save writes the finalizer and the status, each only if it changed. The status is written with the resourceVersion
// that it was computed from: it is the record of removals, and an outdated reconcile must not overwrite one.
func (s *Step) save(ctx context.Context) error {
	if !equality.Semantic.DeepEqual(s.stored().Finalizers, s.Sync.Finalizers) {
		after := s.stored().DeepCopy()
		after.Finalizers = s.Sync.Finalizers
		if err := s.Client.Patch(ctx, after, s.patch()); err != nil {
			return s.retryConflict(err)
		}
		s.written(after)
		if !controllerutil.ContainsFinalizer(after, v1alpha1.Finalizer) {
			return nil
		}
	}
	return s.retryConflict(s.writeStatus(ctx))
}

// writeStatus writes the status if it has changed.
func (s *Step) writeStatus(ctx context.Context) error {
	return s.storeStatus(ctx, s.Sync.Status.DeepCopy())
}

// storeStatus writes a status if it is not the one that is stored.
func (s *Step) storeStatus(ctx context.Context, status *v1alpha1.NodeSyncStatus) error {
	if equality.Semantic.DeepEqual(&s.stored().Status, status) {
		return nil
	}
	after := s.stored().DeepCopy()
	after.Status = *status
	if err := s.Client.Status().Patch(ctx, after, s.patch()); err != nil {
		s.Meter.Unwritten(s.name(), err)
		return err
	}
	s.written(after)
	return nil
}

// stored returns the NodeSync as this reconcile last saw it on the API server.
func (s *Step) stored() *v1alpha1.NodeSync { return cmp.Or(s.Stored, s.Before) }

func (s *Step) patch() client.Patch {
	return client.MergeFromWithOptions(s.stored(), client.MergeFromWithOptimisticLock{})
}

// written records what the API server has now.
func (s *Step) written(after *v1alpha1.NodeSync) {
	s.Saves++
	s.Stored, s.Memory.Saved = after, after.ResourceVersion
	s.Sync.ResourceVersion = after.ResourceVersion
}

// retryConflict turns a conflict into another reconcile: no status was written. Events about what the reconcile has
// written to the cluster are kept.
func (s *Step) retryConflict(err error) error {
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	if apierrors.IsConflict(err) {
		s.Fault = fault.Classify(err)
		s.Notes = slices.DeleteFunc(s.Notes, func(n finding.Note) bool { return !n.Written })
		return nil
	}
	return err
}

// A reconcile may request the next one at once, and usually stops after a few. If it keeps doing so, for whatever
// reason, it gets one each requeueEvery after the first requeueBurst.
const (
	requeueEvery = time.Second
	requeueBurst = 20
)

// requeueLimiter limits how often reconciles of one NodeSync follow each other at once. The zero value is ready to use.
type requeueLimiter struct{ limit *rate.Limiter }

// pace returns how long to wait if a reconcile is wanted after a time: that time, or longer if too many were wanted at
// once.
func (l *requeueLimiter) pace(now time.Time, wanted time.Duration) time.Duration {
	if wanted >= requeueEvery {
		return wanted
	}
	if l.limit == nil {
		l.limit = rate.NewLimiter(rate.Every(requeueEvery), requeueBurst)
	}
	next := l.limit.ReserveN(now, 1)
	wait := next.DelayFrom(now)
	if wait > requeueEvery {
		next.CancelAt(now) // reconciles that a watch triggers meanwhile do not add up
		wait = requeueEvery
	}
	return max(wanted, wait, time.Millisecond)
}
