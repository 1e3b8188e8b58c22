// Package removal deletes the objects that were removed from Git, without stranding a node, and those that a deleted
// NodeSync manages.
//
// Next contains all rules. It is a pure function: from a Removal and an Observation of its object, it returns the
// Removal one step further and the Actions to take. It has no clock, client or context, so tests can play through every
// order of events, crashes and stale caches; see the scripts under testdata. Drive does the I/O around it: it observes,
// answers the questions that Next asks, and acts, with the object's UID and resourceVersion as preconditions and a
// check of the lease before each delete. Step sets the terms on which removals proceed (gates.go), and writes
// status.removals.
//
// A pool is deleted last: its removal is recorded, its growth is stopped, its NodeClaims are terminated, EC2 is
// queried, and only then is it deleted. A reconcile deletes only what an earlier one has recorded. Nothing is ever
// forced: a removal without progress is Stalled, with a diagnosis, for as long as it takes. If the NodeSync is deleted
// but its nodes stay, Release undoes what open removals have changed.
//
// TerminationLook finds NodeClaims, Nodes and instances outside removals that have been terminating for longer than
// expected, whichever client deleted them, and names what each waits for. It reads past the watch cache once a minute,
// and only while something is overdue.
package removal

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dustin/go-humanize/english"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render"
)

// Tools are the dependencies of a Step; they are the same for all NodeSyncs.
type Tools struct {
	// Client writes the records that belong to a NodeSync to the API server; Uncached reads them past the cache.
	Client   client.Client
	Uncached client.Reader
	// Nodes is the cluster whose nodes are terminated.
	Nodes cluster.Clients
	// EC2 returns the client of a region.
	EC2 func(ctx context.Context, region string) (EC2, error)
	// AskEvery is the minimum interval between two queries to EC2.
	AskEvery time.Duration
	// Log returns the latest log lines of Karpenter's controller, for a diagnosis; empty if they cannot be read.
	Log func(context.Context) string
	// Gate reports whether one of Karpenter's feature gates is enabled. The field is nil if that is unknown.
	Gate func(ctx context.Context, name string) (bool, error)
	// Denied returns why the deletion guard denies Karpenter's controller the removal of its finalizers; empty if it
	// does not. It reads the API server. If nil, this is not checked.
	Denied func(context.Context) string
	// StillLeader returns an error if this process no longer holds the lease.
	StillLeader func(context.Context) error
	// Reached is called with each phase that a removal enters.
	Reached func(kind, phase string)
}

// Step is the work on the removals of one NodeSync in one reconcile.
type Step struct {
	Tools
	finding.Findings

	// Sync is the NodeSync. Only its status.removals and status.recentRemovals, the record, are written. Before is the
	// NodeSync as it is in the cluster.
	Sync, Before *v1alpha1.NodeSync
	View         *cluster.View
	Memory       *Memory
	Now          time.Time

	// Set is the content of Git; nil if the NodeSync is being deleted.
	Set *render.Set
	// Live contains the live definitions; Served reports whether their kinds are served.
	Live   plan.Live
	Served bool
	Plan   *plan.Plan
	// Revision is the revision of Set. Applied reports whether the cluster has every addition and change of it. Written
	// are the writes of this reconcile, and Ready is the readiness of each definition.
	Revision string
	Applied  bool
	Written  []plan.Write
	Ready    cluster.ByRef

	// Controller is the readiness of Karpenter's controller; Alive reports whether it has a ready replica.
	Controller cluster.Readiness
	Alive      bool
	// Cluster is the name with which Karpenter tags instances, and Region is theirs.
	Cluster, Region string
	// Account is AWS's verdict on the account; nil if AWS was not queried.
	Account *cloud.Verdict
	// NewOwner returns a function that names the NodeSync to which an object moves.
	NewOwner func(context.Context) (func(*unstructured.Unstructured) string, error)
	// ReadSince reports whether Git was read since a time; if not, why, and when to reconcile next, which reads it:
	// zero if that is a retry.
	ReadSince func(at time.Time) (read bool, why string, wake time.Time)
	// Withheld returns, for the status, why it is in doubt that the entries missing in the revision were removed from
	// Git; nil if it is not in doubt.
	Withheld func(ctx context.Context, sync *v1alpha1.NodeSync, relabelled func(context.Context) (bool, error)) *v1alpha1.Withheld
	// counts are the removals that start once status.recentRemovals, read back, contains them.
	counts map[types.UID]bool
	// Left returns the plan for a NodeSync that has no objects in Git any more.
	Left func(ctx context.Context, live plan.Live) (*plan.Plan, error)
}

// Result is the result of a Step.
type Result struct {
	// Writes are the writes to the cluster.
	Writes []Write
	// Ended describes how the deletion of the NodeSync completed; empty until then.
	Ended string
}

// Memory is what one reconcile passes to the next, to avoid repeated work. The zero value is ready to use.
type Memory struct {
	// applied is the record of what was applied; nil until it is read.
	applied *apply.RecordStore
	// lost are the NodePools that were reported as deleted together with their nodes.
	lost map[types.UID]bool
	// askedAt is when EC2 was last queried about removals. absent are the instances that its responses do not contain,
	// and since when.
	askedAt time.Time
	absent  map[string]Absence
	// evicted are the terminating NodeClaims whose pods are noted.
	evicted map[types.UID]bool
	// settled reports whether no removal has left pods without a node.
	settled bool
	// lease is the latest renewal of the lease of Karpenter's controller.
	lease upgrade.Renewal
	// diagnosedAt is when the nodes of removals were last diagnosed.
	diagnosedAt time.Time
}

// wakeNow requests an immediate reconcile.
func (s *Step) wakeNow() { s.WakeBy(s.Now) }

// timestamp returns the time of the reconcile in the precision of the status.
func (s *Step) timestamp() metav1.Time { return metav1.NewTime(s.Now.Truncate(time.Second)) }

// inGit reports whether Git contains an entry. If the NodeSync is being deleted, it contains none.
func (s *Step) inGit(ref render.Ref) bool { return inGit(s.Set, ref) }

func inGit(set *render.Set, ref render.Ref) bool {
	return set != nil && slices.ContainsFunc(set.Objects, func(o render.Object) bool { return o.Ref == ref })
}

func (s *Step) owner() plan.Owner { return plan.OwnerOf(s.Sync.Namespace, s.Sync.Name) }

// recallApplied reads the record of applied objects once in the life of the process; afterwards the record is what this
// process has written.
func (s *Step) recallApplied(ctx context.Context) error {
	if s.Memory.applied != nil {
		return nil
	}
	store, err := apply.LoadRecord(ctx, s.Uncached, s.Sync)
	if err != nil {
		return err
	}
	s.Memory.applied = store
	return nil
}

// RecordApplied records the live objects of the NodeSync. After the apply, these are the applied ones. Without the
// record, nothing would know of an object that this reconcile created and that is deleted before the next one.
func (s *Step) RecordApplied(ctx context.Context) (Result, error) {
	return Result{}, s.saveApplied(ctx, nil)
}

// forgetGone drops what is verified to be gone from the record.
func (s *Step) forgetGone(ctx context.Context, removals []v1alpha1.Removal) error {
	gone := map[types.UID]bool{}
	for _, r := range removals {
		if r.Phase == v1alpha1.RemovalGone {
			gone[r.UID] = true
		}
	}
	if len(gone) == 0 || s.Memory.applied == nil || !s.Memory.applied.Exists() {
		return nil
	}
	return s.saveApplied(ctx, gone)
}

// saveApplied writes the record if it has changed. The next reconcile reads changes by other clients.
func (s *Step) saveApplied(ctx context.Context, gone map[types.UID]bool) error {
	store, owned := s.Memory.applied, s.owned()
	relabelled, err := s.relabelled(ctx)
	if err != nil {
		return err
	}
	maps.Copy(owned, relabelled)
	next := apply.NextRecord(store.Record, owned, s.Live.Objects, gone)
	switch {
	case s.Withheld(ctx, s.Sync, s.Relabelled) == nil:
		next.Revision = cmp.Or(s.Sync.Status.NewestAppliedRevision(), next.Revision)
	case s.Memory.RecordLost(s.owner(), s.Live, s.Set):
		next.Revision = "" // it stays lost until the missing entries are recorded as held
	}
	if err := store.Save(ctx, s.Client, s.Sync, next); err != nil {
		s.Memory.applied = nil
		return err
	}
	return nil
}

// AppliedRevision returns the latest revision from which anything was written, according to the record; empty if the
// record was not read or does not contain it.
func (m *Memory) AppliedRevision() string {
	if m.applied == nil {
		return ""
	}
	return m.applied.Record.Revision
}

// RecordLost reports whether the record that was read does not describe the live objects; see the function RecordLost.
func (m *Memory) RecordLost(owner plan.Owner, live plan.Live, set *render.Set) bool {
	return m.applied != nil && RecordLost(m.applied, owner, live, set)
}

// RecordLost reports whether a record does not describe the live objects: it was deleted, has lost its revision, or was
// restored from before a NodePool that has since been removed from Git. The name of each NodePool is recorded before it
// is created or adopted.
func RecordLost(store *apply.RecordStore, owner plan.Owner, live plan.Live, set *render.Set) bool {
	if store.Lost() {
		return true
	}
	label, _ := owner.Label()
	for ref, object := range live.Objects {
		if ref.Kind == render.NodePool && !store.Record.Pools[ref.Name] && object.OwnerLabel() == label &&
			owner.Owns(object) && plan.Applied(object.Unstructured) && !inGit(set, ref) {
			return true
		}
	}
	return false
}

// RecordNames records the names of the NodePools that the NodeSync is about to create or adopt. If the write fails,
// RecordApplied fails too, and returns the error once the definitions are written.
func (s *Step) RecordNames(ctx context.Context) (Result, error) {
	if err := s.recallApplied(ctx); err != nil {
		return Result{}, err
	}
	store := s.Memory.applied
	names := map[string]bool{}
	for i := range s.Plan.Changes {
		if c := &s.Plan.Changes[i]; c.Ref.Kind == render.NodePool && c.Action.Writes() && !store.Record.Pools[c.Ref.Name] {
			names[c.Ref.Name] = true
		}
	}
	if len(names) == 0 {
		return Result{}, nil
	}
	maps.Copy(names, store.Record.Pools)
	next := store.Record
	next.Pools = names
	if err := store.Save(ctx, s.Client, s.Sync, next); err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("not recorded before the write", "error", err.Error())
	}
	return Result{}, nil
}

// Recorded returns the objects that this NodeSync has applied, according to its record; nil before the record is read.
// Callers must not change the map.
func (s *Step) Recorded() map[render.Ref]types.UID {
	if s.Memory.applied == nil {
		return nil
	}
	return s.Memory.applied.Record.Objects
}

// owned returns the live objects that this NodeSync has applied. For a recorded object the label is sufficient to check
// this; managedFields are more expensive to read.
func (s *Step) owned() map[render.Ref]types.UID {
	owner := s.owner()
	label, _ := owner.Label()
	recorded := s.Memory.applied.Record.Objects
	owned := make(map[render.Ref]types.UID, len(recorded))
	for ref, object := range s.Live.Objects {
		if object.OwnerLabel() != label {
			continue
		}
		if uid := object.GetUID(); recorded[ref] == uid || owner.Owns(object) && plan.Applied(object.Unstructured) {
			owned[ref] = uid
		}
	}
	return owned
}

// reasonVanished is the reason of a removal whose object another client deleted.
const reasonVanished = "Vanished"

// recordCandidates records the removals, held or not. They start once the record is read back.
func (s *Step) recordCandidates() {
	now := s.timestamp()
	for _, c := range s.Plan.Removals {
		if c.Recorded {
			s.note(c)
			continue
		}
		if slices.ContainsFunc(s.Sync.Status.Removals, func(r v1alpha1.Removal) bool { return r.UID == c.UID }) {
			continue // an earlier removal, which Git has reverted, ends first
		}
		removal := v1alpha1.Removal{
			Kind: c.Ref.Kind, Name: c.Ref.Name, UID: c.UID, Revision: c.Revision,
			RecordedAt: now, Phase: v1alpha1.RemovalPacing, Since: now, LastProgress: now,
			MovesTo: c.MovesTo, Reason: c.Reason, Message: c.Message, Reasons: holdReasons(c),
		}
		if !c.UpTo { // otherwise its nodes are not removed with it
			removal.Remaining = int32(c.Nodes)
		}
		if live := s.Live.Objects[c.Ref]; live != nil && live.GetUID() == c.UID {
			removal.Definition = plan.Definition(live.Unstructured)
		}
		if c.Held {
			removal.Phase = v1alpha1.RemovalHeld
		}
		if c.Vanished {
			removal.Reason = reasonVanished
			s.Warn(reasonVanished, fmt.Sprintf("%s was deleted by hand and is not in Git: plumbline waits until its %d %s and EC2 has terminated its instances", c.Ref, c.Nodes, english.PluralWord(c.Nodes, "NodeClaim is gone", "NodeClaims are gone")))
		}
		s.Sync.Status.Removals = append(s.Sync.Status.Removals, removal)
		s.wakeNow()
	}
}

// note updates a recorded removal: the revision in which the entry is missing, if the branch was, or may have been, reset
// again, or if a drain takes the removal over or ends; the pools to which its nodes move; and the digest of what was held
// and approved.
func (s *Step) note(c plan.Candidate) {
	for i := range s.Sync.Status.Removals {
		r := &s.Sync.Status.Removals[i]
		if r.UID != c.UID {
			continue
		}
		if decided := c.Revision == plan.RevisionDeleted != (r.Revision == plan.RevisionDeleted); decided || heldAsOlder(c) {
			r.Revision = c.Revision
		}
		r.MovesTo = c.MovesTo
		if c.Approved != "" {
			r.Approved, r.LastPool = c.Approved, c.Last
		}
	}
}

// holdReasons returns the reasons for which a candidate is held, if there is more than one.
func holdReasons(c plan.Candidate) []string {
	if len(c.Holds) < 2 {
		return nil
	}
	var reasons []string
	for _, h := range c.Holds {
		reasons = append(reasons, h.Reason)
	}
	return reasons
}

// heldAsOlder reports whether a candidate is held because HEAD is, or may be, older.
func heldAsOlder(c plan.Candidate) bool {
	return slices.Contains([]string{v1alpha1.ReasonOlderRevision, v1alpha1.ReasonHistoryUnknown}, c.Reason)
}

// limitRecordedAt ensures that no removal is recorded later than the objects that this reconcile has created: these are
// new to each removal. The times come from two clocks, and one of them may have jumped.
func (s *Step) limitRecordedAt() {
	for _, w := range s.Written {
		if !w.New {
			continue
		}
		for i := range s.Sync.Status.Removals {
			if r := &s.Sync.Status.Removals[i]; w.CreatedAt.Before(&r.RecordedAt) {
				r.RecordedAt = w.CreatedAt
			}
		}
	}
}
