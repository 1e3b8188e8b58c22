package status

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/removal"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/render"
)

// measure records in the Meter what a reconcile has done and found.
func (m *Meter) measure(s *Step) {
	if m == nil {
		return
	}
	for _, t := range s.Durations {
		m.steps.WithLabelValues(string(t.Step)).Observe(t.Duration.Seconds())
	}
	m.countWrites(s)
	if s.Finished {
		m.forget(s.name())
		return
	}
	l := gauges{
		phases: map[v1alpha1.RemovalPhase]int{}, nodes: map[v1alpha1.RemovalPhase]int32{}, braked: map[string]v1alpha1.BrakeReason{},
		stalled: stalledSince(s.Sync), drifted: drifted(&s.Sync.Status),
	}
	for _, r := range filter(s.Sync.Status.Removals, func(r v1alpha1.Removal) bool { return !r.Drained() && !r.Returned() }) {
		l.phases[r.Phase]++
		if r.Kind == render.NodePool { // a class is counted by what refers to it
			l.nodes[r.Phase] += r.Remaining
		}
		if inProgress(r) {
			l.inProgress++
		}
	}
	l.orphaned, l.attached, l.left = leftBehind(s.Sync.Status.Instances)
	l.terminating = s.Sync.Status.StalledTerminations
	if r := s.Sync.Status.Rollout; r != nil {
		l.outdated, l.late = r.Outdated, s.rolloutTimedOut() || s.late() != ""
	}
	l.unmanaged = s.Sync.Status.OrphanedNodes
	l.conflict = s.Sync.Status.IdentityConflict.Open() && !s.Sync.KeepsDefinitions()
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

// countWrites counts the writes of a reconcile to the cluster.
func (m *Meter) countWrites(s *Step) {
	for _, w := range s.Written {
		m.writes.WithLabelValues(w.Ref.Kind, strings.ToLower(string(w.Action))).Add(float64(w.Requests))
	}
	for _, write := range s.Removed {
		if _, nothing := write.Action.(removal.Reverted); nothing {
			continue
		}
		m.writes.WithLabelValues(written(write)).Inc()
	}
	if s.Saves > 0 {
		m.writes.WithLabelValues(v1alpha1.NodeSyncKind, "patch").Add(float64(s.Saves))
	}
}

// inProgress reports whether a removal proceeds: neither it nor the NodePool that it waits for is held, and it has not
// stalled, for both of which there are alerts; and it waits neither for a window of spec.guard nor for its grace, whose
// end is known.
func inProgress(r v1alpha1.Removal) bool {
	waits := r.Reason == removal.ReasonFrozen || r.Reason == removal.ReasonGrace || r.Reason == removal.ReasonNodePoolHeld
	return r.Phase != v1alpha1.RemovalHeld && r.Stalled == nil && !waits
}

// leftBehind counts what deleted nodes and definitions have left.
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

// heldChanges returns how many changes are held. A reconcile that did not check it keeps the previous number; if
// nothing is applied any more, none is held.
func (s *Step) heldChanges(before int) int {
	switch {
	case s.Sync.KeepsDefinitions() || !s.Sync.DeletionTimestamp.IsZero():
		return 0
	case s.Held == nil:
		return before
	}
	return len(s.Held)
}

// drifted returns the objects that currently differ from Git, and the instances that differ from their definitions.
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

// Forget drops all series of a NodeSync that is gone.
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

// written returns the labels kind and action of a write for a removal.
func written(write removal.Write) (kind, action string) {
	switch write.Action.(type) {
	case removal.DeleteNodeClaim:
		return "NodeClaim", "delete"
	case removal.DeleteObject:
		return write.Kind, "delete"
	case removal.RestoreGrowth:
		return write.Kind, "restore"
	}
	return write.Kind, "restrain"
}

// stalledSince returns since when a NodeSync waits for a person, or one of its removals makes no progress, whichever is
// earlier.
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

// Meter holds plumbline's own metrics, in addition to those by Flux's conventions. manifests/SPEC.md documents each.
// Only series with a NodeSync's name grow with the number of NodeSyncs, and they are deleted with the NodeSync.
//
// A nil Meter measures nothing.
type Meter struct {
	now func() time.Time
	// depths returns how many commit statuses of each NodeSync wait.
	depths func() map[types.NamespacedName]report.QueueDepth

	steps    *prometheus.HistogramVec
	writes   *prometheus.CounterVec
	fetches  prometheus.Counter
	fetched  prometheus.Counter
	webhooks *prometheus.CounterVec
	statuses *prometheus.CounterVec
	// Computed at each scrape, because ages grow by themselves.
	removals, stall, queued, oldest *prometheus.Desc
	// drift is 1 for an object or instance that differs from Git by no commit, and outdated counts nodes.
	drift, outdated *prometheus.Desc
	// removing, orphaned, unmanaged, attached and left count the nodes of removals, instances, nodes that are no longer
	// managed, volumes, and other resources left in AWS.
	removing, orphaned, unmanaged, attached, left *prometheus.Desc
	// terminating counts what has been terminating for longer than expected.
	terminating *prometheus.Desc
	// held counts the changes that are held, and inProgress the removals that proceed.
	held, inProgress *prometheus.Desc
	// braked is 1 for a pool whose rollout is stopped, and unguarded while the deletion guard is missing or altered.
	braked, unguarded *prometheus.Desc
	// conflict is 1 while another controller uses the cluster's name.
	conflict *prometheus.Desc
	// late is 1 for a NodeSync whose rollout takes longer than its timeout, or is expected to.
	late *prometheus.Desc
	// stuck is 1 for a NodeSync whose commit statuses cannot be queued.
	stuck *prometheus.GaugeVec

	mu    sync.Mutex
	syncs map[types.NamespacedName]gauges
}

// gauges are the values of a NodeSync at each scrape.
type gauges struct {
	phases map[v1alpha1.RemovalPhase]int
	// inProgress is how many removals proceed.
	inProgress int
	// held is how many changes of definitions are held.
	held int
	// drifted are objects that differ from Git by no commit, and outdated is how many nodes do not match their
	// definitions.
	drifted  []render.Ref
	outdated int32
	// nodes are how many nodes removals have left, by their phase; orphaned is how many instances belong to no
	// NodeClaim, and attached how many volumes are still attached to nodes that are gone.
	nodes              map[v1alpha1.RemovalPhase]int32
	orphaned, attached int32
	// left is how many interfaces, launch templates and instance profiles deleted nodes and EC2NodeClasses have left.
	left int32
	// terminating is how many NodeClaims, Nodes and instances have been terminating for longer than expected.
	terminating int32
	// unmanaged is how many nodes belong to pools that are no longer managed.
	unmanaged int32
	// braked are the pools whose rollout is stopped, with the reason.
	braked    map[string]v1alpha1.BrakeReason
	unguarded bool
	// conflict reports whether another controller uses the cluster's name.
	conflict bool
	// late reports whether the rollout takes longer than its timeout, or is expected to.
	late bool
	// stalled is since when something waits for a person; zero if nothing does.
	stalled time.Time
}

// NewMeter returns a Meter, which the caller registers. It calls depths at each scrape.
func NewMeter(now func() time.Time, depths func() map[types.NamespacedName]report.QueueDepth) *Meter {
	ofSync := []string{"namespace", "name"}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, slices.Concat(ofSync, labels), nil)
	}
	return &Meter{
		now: now, depths: depths,
		steps: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "plumbline_step_duration_seconds", Help: "How long a step of a pass took.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 10), // to 2 min, the default timeout of a fetch
		}, []string{"step"}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plumbline_writes_total", Help: "Writes to the cluster, by the object's kind and what was done.",
		}, []string{"kind", "action"}),
		fetches: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "plumbline_fetches_total", Help: "Fetches that reached a Git host.",
		}),
		fetched: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "plumbline_fetched_bytes_total", Help: "Bytes received from Git hosts.",
		}),
		webhooks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plumbline_webhook_requests_total",
			Help: "Requests to the webhook receiver, by the kind of Git host and the status of the answer.",
		}, []string{"host", "code"}),
		statuses: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plumbline_status_writes_failed_total", Help: "Writes of a NodeSync's status that the API server refused or did not answer.",
		}, ofSync),
		stuck: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "plumbline_commit_statuses_stuck",
			Help: "1 while the commit statuses of a NodeSync cannot be queued until a person does something.",
		}, ofSync),
		removals:    desc("plumbline_removals", "Removals of a NodeSync that are recorded, by phase.", "phase"),
		inProgress:  desc("plumbline_removals_in_progress", "Removals of a NodeSync that are neither held nor stalled, and wait neither for a window nor for their grace."),
		held:        desc("plumbline_held_changes", "Changes of a NodeSync's definitions that the guard or a policy holds."),
		stall:       desc("plumbline_stall_age_seconds", "How long a NodeSync's oldest stall lasts; 0 where none does."),
		drift:       desc("plumbline_drift", "1 for an object that another client has changed or deleted, while it is not as Git says, and for an EC2 instance (kind Instance) that is not what its definitions and NodeClaim say.", "kind", "object"),
		outdated:    desc("plumbline_outdated_nodes", "Nodes of a NodeSync's pools that do not match their definitions."),
		braked:      desc("plumbline_rollout_braked", "1 for a NodePool in which plumbline has stopped the replacement of nodes, by the reason.", "pool", "reason"),
		late:        desc("plumbline_rollout_late", "1 while the rollout of a NodeSync takes longer than spec.rollout.timeout, or is expected to."),
		unguarded:   desc("plumbline_deletion_unguarded", "1 while a policy of the deletion guard, or its binding, is missing or altered."),
		conflict:    desc("plumbline_identity_conflict", "1 while another controller launches or terminates EC2 instances under the cluster's name."),
		removing:    desc("plumbline_removal_nodes", "Nodes that a NodeSync's removals have left, by the removals' phase.", "phase"),
		orphaned:    desc("plumbline_orphaned_instances", "EC2 instances in a NodeSync's pools for which no NodeClaim exists."),
		unmanaged:   desc("plumbline_orphaned_nodes", "Nodes of NodePools that a NodeSync has orphaned, and that no NodeSync has adopted since."),
		attached:    desc("plumbline_volume_attachments_left", "Volumes that are attached to nodes or instances that are gone."),
		left:        desc("plumbline_resources_left", "Interfaces, launch templates and instance profiles in AWS of nodes and EC2NodeClasses that are gone."),
		terminating: desc("plumbline_terminations_stalled", "NodeClaims, Nodes and EC2 instances of a NodeSync's pools that have been terminating for longer than expected, other than those of removals."),
		queued:      desc("plumbline_commit_statuses_queued", "Commit statuses of a NodeSync that wait to be posted."),
		oldest:      desc("plumbline_commit_status_age_seconds", "How long the oldest of a NodeSync's commit statuses waits; 0 where none does."),
		syncs:       map[types.NamespacedName]gauges{},
	}
}

func (m *Meter) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.steps, m.writes, m.fetches, m.fetched, m.webhooks, m.statuses, m.stuck}
}

// Describe implements prometheus.Collector.
func (m *Meter) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(to)
	}
	to <- m.removals
	to <- m.inProgress
	to <- m.held
	to <- m.stall
	to <- m.drift
	to <- m.outdated
	to <- m.braked
	to <- m.late
	to <- m.unguarded
	to <- m.conflict
	to <- m.removing
	to <- m.orphaned
	to <- m.unmanaged
	to <- m.attached
	to <- m.left
	to <- m.terminating
	to <- m.queued
	to <- m.oldest
}

// Collect implements prometheus.Collector.
func (m *Meter) Collect(to chan<- prometheus.Metric) {
	for _, c := range m.collectors() {
		c.Collect(to)
	}
	gauge := func(of *prometheus.Desc, value float64, name types.NamespacedName, labels ...string) {
		to <- prometheus.MustNewConstMetric(of, prometheus.GaugeValue, value, append([]string{name.Namespace, name.Name}, labels...)...)
	}
	now := m.now()
	for name, depth := range m.depths() {
		gauge(m.queued, float64(depth.Length), name)
		gauge(m.oldest, age(now, depth.Oldest), name)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, l := range m.syncs {
		for _, phase := range openPhases() {
			gauge(m.removals, float64(l.phases[phase]), name, string(phase))
			gauge(m.removing, float64(l.nodes[phase]), name, string(phase))
		}
		gauge(m.inProgress, float64(l.inProgress), name)
		gauge(m.held, float64(l.held), name)
		gauge(m.orphaned, float64(l.orphaned), name)
		gauge(m.unmanaged, float64(l.unmanaged), name)
		gauge(m.attached, float64(l.attached), name)
		gauge(m.left, float64(l.left), name)
		gauge(m.terminating, float64(l.terminating), name)
		gauge(m.unguarded, bit(l.unguarded), name)
		gauge(m.conflict, bit(l.conflict), name)
		gauge(m.stall, age(now, l.stalled), name)
		gauge(m.late, bit(l.late), name)
		gauge(m.outdated, float64(l.outdated), name)
		for pool, reason := range l.braked {
			gauge(m.braked, 1, name, pool, string(reason))
		}
		for _, ref := range l.drifted {
			gauge(m.drift, 1, name, ref.Kind, ref.Name)
		}
	}
}

// age returns how many seconds something has lasted; 0 if it has not started.
func age(now, since time.Time) float64 {
	if since.IsZero() {
		return 0
	}
	return max(now.Sub(since), 0).Seconds()
}

// openPhases returns those that a recorded removal can be in.
func openPhases() []v1alpha1.RemovalPhase {
	return []v1alpha1.RemovalPhase{
		v1alpha1.RemovalHeld, v1alpha1.RemovalPacing, v1alpha1.RemovalDraining, v1alpha1.RemovalVerifyingCloud, v1alpha1.RemovalFinalizing,
	}
}

// Fetched counts a fetch and the bytes received.
func (m *Meter) Fetched(bytes int64) {
	m.fetches.Inc()
	m.fetched.Add(float64(bytes))
}

// Answered counts an answer of the webhook receiver.
func (m *Meter) Answered(host string, status int) {
	m.webhooks.WithLabelValues(host, strconv.Itoa(status)).Inc()
}

// Unwritten counts a status that could not be written. A conflict, or a NodeSync that is gone, is no failure.
func (m *Meter) Unwritten(name types.NamespacedName, err error) {
	if m == nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return
	}
	m.statuses.WithLabelValues(name.Namespace, name.Name).Inc()
}

// reportsStuck reports whether the commit statuses of a NodeSync can be queued.
func (m *Meter) reportsStuck(name types.NamespacedName, stuck bool) {
	if m == nil {
		return
	}
	m.stuck.WithLabelValues(name.Namespace, name.Name).Set(bit(stuck))
}

func bit(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// forget drops the series with the name of a NodeSync.
func (m *Meter) forget(name types.NamespacedName) {
	if m == nil {
		return
	}
	m.statuses.DeleteLabelValues(name.Namespace, name.Name)
	m.stuck.DeleteLabelValues(name.Namespace, name.Name)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.syncs, name)
}
