package conclude

import (
	"context"
	"strings"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/teardown"
	"github.com/plumbline-dev/plumbline/render"
)

// measure tells the Meter what a pass has done and found.
func (m *Meter) measure(s *Step) {
	if m == nil {
		return
	}
	for _, t := range s.Durations {
		m.steps.WithLabelValues(string(t.Step)).Observe(t.Duration.Seconds())
	}
	for _, w := range s.Written {
		m.writes.WithLabelValues(w.Ref.Kind, strings.ToLower(string(w.Action))).Add(float64(w.Requests))
	}
	for _, write := range s.Removed {
		if _, nothing := write.Action.(teardown.Reverted); nothing {
			continue
		}
		m.writes.WithLabelValues(written(write)).Inc()
	}
	if s.Saves > 0 {
		m.writes.WithLabelValues(v1alpha1.NodeSyncKind, "patch").Add(float64(s.Saves))
	}
	if s.Finished {
		m.forget(s.name())
		return
	}
	l := gauges{phases: map[v1alpha1.RemovalPhase]int{}, nodes: map[v1alpha1.RemovalPhase]int32{}, braked: map[string]v1alpha1.BrakeReason{}, stalled: stalledSince(s.Sync), drifted: drifted(&s.Sync.Status)}
	for _, r := range filter(s.Sync.Status.Removals, func(r v1alpha1.Removal) bool { return !r.Drained() }) {
		l.phases[r.Phase]++
		if r.Kind == render.NodePool { // of a class it is what names it
			l.nodes[r.Phase] += r.Remaining
		}
		if underWay(r) {
			l.underWay++
		}
	}
	l.orphaned, l.attached, l.left = leftBehind(s.Sync.Status.Instances)
	l.terminating = s.Sync.Status.StalledTerminations
	if r := s.Sync.Status.Rollout; r != nil {
		l.outdated = r.Outdated
	}
	l.unmanaged = s.Sync.Status.OrphanedNodes
	l.unguarded = conditions.IsTrue(s.Sync, v1alpha1.DeletionUnguardedCondition)
	m.statuses.WithLabelValues(s.Sync.Namespace, s.Sync.Name) // 0 until one fails, so that Prometheus sees the increase
	for _, p := range s.Sync.Status.PoolRollouts {
		if p.BrakedAt != nil && p.Reason != v1alpha1.BrakeFrozen {
			l.braked[p.Pool] = p.Reason
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l.held = s.heldChanges(m.syncs[s.name()].held)
	m.syncs[s.name()] = l
}

// underWay says of a removal that it goes on: neither it nor the NodePool that it waits for is held, it has not stalled, for
// both of which there are alerts, and it waits neither for a window of spec.guard nor for its grace, of which it is known
// how long they last.
func underWay(r v1alpha1.Removal) bool {
	waits := r.Reason == teardown.ReasonFrozen || r.Reason == teardown.ReasonGrace || r.Reason == teardown.ReasonNodePoolHeld
	return r.Phase != v1alpha1.RemovalHeld && r.Stalled == nil && !waits
}

// leftBehind counts what nodes and definitions that are gone have left.
func leftBehind(found *v1alpha1.InstanceDrift) (instances, volumes, others int32) {
	if found == nil {
		return 0, 0, 0
	}
	if found.Volumes != nil {
		volumes = found.Volumes.Count
	}
	if found.Left != nil {
		others = found.Left.Count
	}
	return found.Orphaned, volumes, others
}

// heldChanges is how many changes are held. A pass that has not come so far leaves what was known before;
// where nothing is applied any more, none is.
func (s *Step) heldChanges(before int) int {
	switch {
	case s.Sync.Keeps() || !s.Sync.DeletionTimestamp.IsZero():
		return 0
	case s.Held == nil:
		return before
	}
	return len(s.Held)
}

// drifted are the objects that differ from Git now, and the instances that are not what they say.
func drifted(status *v1alpha1.NodeSyncStatus) (refs []render.Ref) {
	for _, o := range status.Drift {
		if o.CorrectedAt == nil {
			refs = append(refs, render.Ref{Kind: o.Kind, Name: o.Name})
		}
	}
	if status.Instances != nil {
		for _, i := range status.Instances.Instances {
			refs = append(refs, render.Ref{Kind: InstanceKind, Name: i.ID})
		}
	}
	return refs
}

// Forget drops all series of a NodeSync that is gone, however it went.
func (t Tools) Forget(ctx context.Context, name types.NamespacedName) {
	t.Meter.forget(name)
	now := metav1.NewTime(t.Now())
	gone := &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name, DeletionTimestamp: &now}}
	t.Metrics.RecordDuration(ctx, gone, now.Time)
	t.Metrics.RecordSuspend(ctx, gone, false)
	t.Metrics.RecordReadiness(ctx, gone)
	t.Metrics.RecordReconciling(ctx, gone)
	t.Metrics.RecordStalled(ctx, gone)
}

// written is one for a removal, as a kind and an action.
func written(write teardown.Write) (kind, action string) {
	switch write.Action.(type) {
	case teardown.DeleteNodeClaim:
		return "NodeClaim", "delete"
	case teardown.DeleteObject:
		return write.Kind, "delete"
	case teardown.RestoreGrowth:
		return write.Kind, "restore"
	}
	return write.Kind, "restrain"
}

// stalledSince is since when a NodeSync waits for a person, or one of its removals
// has stood still: the earlier.
func stalledSince(sync *v1alpha1.NodeSync) time.Time {
	var since []metav1.Time
	if stalled := conditions.Get(sync, meta.StalledCondition); stalled != nil && stalled.Status == metav1.ConditionTrue {
		since = append(since, stalled.LastTransitionTime)
	}
	for _, r := range sync.Status.Removals {
		if r.Stalled != nil {
			since = append(since, *r.Stalled)
		}
	}
	var oldest time.Time
	for _, at := range since {
		if oldest.IsZero() || at.Time.Before(oldest) {
			oldest = at.Time
		}
	}
	return oldest
}
