package reconcile

import (
	"context"
	"slices"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
)

// conclude is the one place where what a pass found becomes status, events,
// metrics, commit statuses and the time of the next pass.
func (p *pass) conclude(ctx context.Context) (ctrl.Result, error) {
	p.hideSecrets()
	p.summarize()
	p.report(ctx)
	err := p.save(ctx)
	if fault.Unstorable(err) {
		err = p.saveLess(ctx, err)
	}
	p.tell()
	p.record(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	return p.result(), nil
}

// summarize sets the conditions and the lists of the status.
func (p *pass) summarize() {
	s := &p.sync.Status
	s.Stages = p.stages.list(p.want.Set, s.Stages, p.timestamp())
	for _, message := range missing(s.Stages, p.before.Status.Stages) {
		p.Warn("ReplicaMissing", message)
	}
	s.OpenRemovals = 0
	for _, removal := range s.Removals {
		if removal.Phase != v1alpha1.RemovalHeld {
			s.OpenRemovals++
		}
	}
	// One that was suspended before its first pass has been looked at by none.
	unseen := p.suspended && !conditions.Has(p.sync, meta.ReadyCondition)
	if !p.elsewhere && !unseen {
		s.ObservedGeneration = p.sync.Generation
	}
	p.noteWithheld()
	boundRemovals(s.Removals)
	v := p.verdict()
	v.message = finding.Bounded(v.message, maxConditionMessage)
	p.setWaiting(v)
	p.setConditions(v)
	bound(s)
}

// timestamp is the pass's time as status holds it.
func (p *pass) timestamp() metav1.Time { return metav1.NewTime(p.now.Truncate(time.Second)) }

func (p *pass) setWaiting(v verdict) {
	if v.class != working || len(p.Waits) == 0 {
		p.sync.Status.Waiting = nil
		return
	}
	first := p.Waits[0]
	since := p.timestamp()
	if old := p.before.Status.Waiting; old != nil && old.For == first.On {
		since = old.Since
	}
	p.sync.Status.Waiting = &v1alpha1.Waiting{For: first.On, Message: first.Message, Since: since}
}

// setConditions speaks kstatus: Ready True is done, Reconciling True is at
// work, Stalled True needs a person.
func (p *pass) setConditions(v verdict) {
	if p.suspended {
		conditions.Delete(p.sync, meta.ReconcilingCondition)
		conditions.Delete(p.sync, v1alpha1.LaunchFailingCondition) // nobody looks
		conditions.Delete(p.sync, v1alpha1.NodeDriftCondition)
		return
	}
	// A condition that stays is not taken off and set again: it would be new
	// each time, and the status would be written at each pass.
	switch v.class {
	case done:
		conditions.Delete(p.sync, meta.ReconcilingCondition)
		conditions.Delete(p.sync, meta.StalledCondition)
		conditions.MarkTrue(p.sync, meta.ReadyCondition, v.reason, "%s", v.message)
	case working:
		conditions.MarkUnknown(p.sync, meta.ReadyCondition, v.reason, "%s", v.message)
		conditions.MarkReconciling(p.sync, v.reason, "%s", v.message)
	case retrying:
		conditions.MarkFalse(p.sync, meta.ReadyCondition, v.reason, "%s", v.message)
		conditions.MarkReconciling(p.sync, meta.ProgressingWithRetryReason, "%s", v.message)
	case stuck:
		conditions.MarkFalse(p.sync, meta.ReadyCondition, v.reason, "%s", v.message)
		conditions.MarkStalled(p.sync, v.reason, "%s", v.message)
	}
	p.setSourceVerified()
	p.setRemoving()
	p.setLaunchFailing()
	p.setNodeDrift()
}

func (p *pass) setRemoving() {
	if len(p.sync.Status.Removals) == 0 {
		conditions.Delete(p.sync, v1alpha1.RemovingCondition)
		return
	}
	conditions.MarkTrue(p.sync, v1alpha1.RemovingCondition, v1alpha1.ReasonRemoving, "%s", describeRemovals(p.sync.Status.Removals))
}

// save writes the finalizer and the status, each only where it changed. The
// status goes with the resourceVersion it was made from: it is the record of
// removals, and a stale pass must not overwrite one.
func (p *pass) save(ctx context.Context) error {
	if !equality.Semantic.DeepEqual(p.before.Finalizers, p.sync.Finalizers) {
		patch := client.MergeFromWithOptions(p.before, client.MergeFromWithOptimisticLock{})
		meta := p.before.DeepCopy()
		meta.Finalizers = p.sync.Finalizers
		if err := p.Client.Patch(ctx, meta, patch); err != nil {
			return p.stale(err)
		}
		p.saves++
		if !controllerutil.ContainsFinalizer(meta, v1alpha1.Finalizer) {
			return nil
		}
		p.before.ResourceVersion = meta.ResourceVersion
		p.sync.ResourceVersion = meta.ResourceVersion
		p.memory.saved = meta.ResourceVersion
	}
	return p.stale(p.writeStatus(ctx))
}

// writeStatus writes the status where it has changed.
func (p *pass) writeStatus(ctx context.Context) error {
	status := p.sync.Status.DeepCopy()
	if equality.Semantic.DeepEqual(&p.before.Status, status) {
		return nil
	}
	patch := client.MergeFromWithOptions(p.before, client.MergeFromWithOptimisticLock{})
	after := p.before.DeepCopy()
	after.Status = *status
	if err := p.Client.Status().Patch(ctx, after, patch); err != nil {
		p.Meter.unwritten(p.name(), err)
		return err
	}
	p.saves++
	p.memory.saved = after.ResourceVersion
	return nil
}

// stale turns a lost race into another look: no status was written. Events about what the
// pass has written to the cluster are kept.
func (p *pass) stale(err error) error {
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	if apierrors.IsConflict(err) {
		p.fault = &fault.Error{Class: fault.Superseded, Reason: "Conflict", Err: err}
		p.Notes = slices.DeleteFunc(p.Notes, func(n finding.Note) bool { return !n.Written })
		return nil
	}
	return err
}

// tell sends the pass's events, and one for a verdict that nothing else has told.
func (p *pass) tell() {
	for _, n := range p.Notes {
		if n.Reason == reasonApplied {
			p.memory.applied = p.revision()
		}
		p.Events.AnnotatedEventf(p.sync, p.eventAnnotations(), n.Type, n.Reason, "%s", finding.Bounded(n.Message, maxEventMessage))
	}
	after, before := conditions.Get(p.sync, meta.ReadyCondition), conditions.Get(p.before, meta.ReadyCondition)
	if after == nil || p.superseded() || p.finished || sameWords(before, after) {
		return
	}
	kind := corev1.EventTypeNormal
	switch {
	case after.Status == metav1.ConditionUnknown:
		return // at work: the status says on what, and each deed has its event
	case after.Status == metav1.ConditionFalse:
		kind, p.memory.applied = corev1.EventTypeWarning, ""
	case p.memory.applied != "" && p.memory.applied == p.revision():
		return // as was to be expected of what was applied
	case before != nil && before.Status == metav1.ConditionTrue:
		return // a commit that changed nothing of it
	}
	p.Events.AnnotatedEventf(p.sync, p.eventAnnotations(), kind, after.Reason, "%s", finding.Bounded(after.Message, maxEventMessage))
}

// sameWords says whether two conditions, of which the first may be missing, say
// the same.
func sameWords(a, b *metav1.Condition) bool {
	return a != nil && a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message
}

func (p *pass) eventAnnotations() map[string]string {
	if p.sync.Status.LastAttemptedRevision == "" {
		return nil
	}
	return map[string]string{v1alpha1.GroupVersion.Group + "/revision": p.sync.Status.LastAttemptedRevision}
}

func (p *pass) record(ctx context.Context) {
	p.Meter.measure(p)
	p.RecordDuration(ctx, p.sync, p.now)
	p.RecordSuspend(ctx, p.sync, p.sync.Spec.Suspend)
	p.RecordReadiness(ctx, p.sync)
	p.RecordReconciling(ctx, p.sync)
	p.RecordStalled(ctx, p.sync)
}

func (p *pass) superseded() bool { return p.fault != nil && p.fault.Class == fault.Superseded }

// result says when the next pass comes, where no watch wakes us before.
func (p *pass) result() ctrl.Result {
	if p.superseded() {
		return ctrl.Result{RequeueAfter: p.memory.haste.pace(p.Settings.Now(), finding.Soon)}
	}
	if p.suspended || p.elsewhere || p.finished {
		return ctrl.Result{}
	}
	for _, f := range []*fault.Error{p.fault, fault.Classify(p.want.Unpulled), fault.Classify(p.unwritten)} {
		if f != nil && f.Class == fault.Transient {
			p.WakeBy(p.now.Add(p.retryInterval()))
		}
	}
	if p.WakeAt.IsZero() {
		p.WakeAt = p.now.Add(p.sync.Spec.Interval.Duration)
	}
	now := p.Settings.Now()
	return ctrl.Result{RequeueAfter: p.memory.haste.pace(now, p.WakeAt.Sub(now))}
}
