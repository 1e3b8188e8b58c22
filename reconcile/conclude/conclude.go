package conclude

import (
	"context"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
)

// Conclude is the one place where what a pass found becomes status, events,
// metrics, commit statuses and the time of the next pass.
func (s *Step) Conclude(ctx context.Context) (ctrl.Result, error) {
	s.farewell(ctx)
	s.recallLaunches()
	s.Redact()
	s.Summarize()
	notices := s.noteNotices()
	told := s.report(ctx)
	err := s.save(ctx)
	if fault.Unstorable(err) {
		told, err = true, s.saveLess(ctx, err)
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
	s.tell()
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
	s.noteTerminations()
	if s.Sync.Keeps() { // nobody looks at nodes that end
		status.Rollout, status.LaunchFailing, status.Instances = nil, nil, nil
	}
	status.OpenRemovals = 0
	for _, removal := range status.Removals {
		if removal.Phase != v1alpha1.RemovalHeld && !removal.Drained() {
			status.OpenRemovals++
		}
	}
	// One that was suspended before its first pass has been looked at by none.
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

// timestamp is the pass's time as status holds it.
func (s *Step) timestamp() metav1.Time { return metav1.NewTime(s.Began.Truncate(time.Second)) }

// setWaiting says what is waited for, and since when. What may not come by itself stays there
// whatever the verdict: a daemon that is restarted reads off it how long that lasts.
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

// result says when the next pass comes, where no watch wakes us before.
func (s *Step) result() ctrl.Result {
	if s.superseded() {
		return ctrl.Result{RequeueAfter: s.Memory.haste.pace(s.Now(), finding.Soon)}
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
	return ctrl.Result{RequeueAfter: s.Memory.haste.pace(now, s.WakeAt.Sub(now))}
}

func (s *Step) name() types.NamespacedName { return client.ObjectKeyFromObject(s.Sync) }
