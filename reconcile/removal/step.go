// Package removal removes what has left Git, without stranding a node, and what a NodeSync manages that is being deleted.
//
// Next is the whole rule, a function from values to values: a Removal and what is seen of its object are its input; the Removal one
// step further and the Actions to take are its result. It has no clock, no client and no context, so that every order of events,
// crash and stale cache can be played through in a test; the scripts under testdata are such plays. Drive is the I/O around it: it
// observes, answers the questions that Next has, and acts, with the object's UID and resourceVersion as preconditions and a check of
// the lease before each delete. Step says on which terms removals go on (gates.go), and keeps status.removals.
//
// A pool is deleted last: it is recorded, its growth is stopped, its NodeClaims are terminated, EC2 is queried, and only then it is
// deleted. What a reconcile deletes, an earlier one has recorded. Nothing is ever forced: a removal that stands still is Stalled, with
// a diagnosis, for as long as it takes. Release undoes what open removals have done if the NodeSync is deleted and leaves its
// nodes.
//
// TerminationLook finds NodeClaims, Nodes and instances outside removals that have been terminating for longer than expected, whichever
// client deleted them, and names what each waits for. It reads past the watch cache once a minute, and only while something is
// overdue.
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

// Tools are what a Step works with, the same for all NodeSyncs.
type Tools struct {
	// Client writes what is recorded beside the NodeSync to the API server; Uncached reads it past the cache.
	Client   client.Client
	Uncached client.Reader
	// Nodes is the cluster whose nodes end.
	Nodes cluster.Clients
	// EC2 is the client of a region.
	EC2 func(ctx context.Context, region string) (EC2, error)
	// AskEvery is the least time between two questions to EC2.
	AskEvery time.Duration
	// Log is what Karpenter's controller has logged last, for a diagnosis; empty if it cannot be read.
	Log func(context.Context) string
	// Gate reports whether one of Karpenter's feature gates is on; nil if that is not known.
	Gate func(ctx context.Context, name string) (bool, error)
	// Denied is why the deletion guard denies Karpenter's controller the removal of its finalizers; empty if it does not. It
	// reads the API server. nil if nobody looks.
	Denied func(context.Context) string
	// StillLeader returns an error when the lease is no longer ours.
	StillLeader func(context.Context) error
	// Reached gets each phase that a removal enters.
	Reached func(kind, phase string)
}

// Step is the work on removals of one reconcile of one NodeSync.
type Step struct {
	Tools
	finding.Findings

	// Sync is the NodeSync. Its status.removals and status.recentRemovals are the record; nothing else of it is
	// written. Before is the NodeSync as the cluster has it.
	Sync, Before *v1alpha1.NodeSync
	View         *cluster.View
	Memory       *Memory
	Now          time.Time

	// Set is what Git has; nil if the NodeSync is being deleted.
	Set *render.Set
	// Live is what lives of the definitions, and Served reports that their kinds are.
	Live   plan.Live
	Served bool
	Plan   *plan.Plan
	// Revision is the Set's. Applied reports that every arrival and change of it stands in
	// the cluster, Written are those of this reconcile, and Ready how far each definition is.
	Revision string
	Applied  bool
	Written  []plan.Write
	Ready    cluster.ByRef

	// Controller says how far Karpenter's controller is, and Alive that it has a ready
	// replica.
	Controller cluster.Readiness
	Alive      bool
	// Cluster is the name by which Karpenter tags instances, and Region where they are.
	Cluster, Region string
	// Account is what AWS says of the account; nil if it was not asked.
	Account *cloud.Verdict
	// GoesTo returns what names the NodeSync that an object goes to.
	GoesTo func(context.Context) (func(*unstructured.Unstructured) string, error)
	// ReadSince reports whether Git was read since a time; if not, why, and when the next reconcile
	// is wanted, which reads it: zero if that is a retry.
	ReadSince func(at time.Time) (read bool, why string, wake time.Time)
	// Withheld is why it is in doubt that what the revision lacks was taken out of Git, as
	// the status is to keep it; nil if it was.
	Withheld func(ctx context.Context, sync *v1alpha1.NodeSync, relabelled func(context.Context) (bool, error)) *v1alpha1.Withheld
	// counts are the removals that begin once status.recentRemovals, read back, has them.
	counts map[types.UID]bool
	// Left plans for a NodeSync that has nothing in Git any more.
	Left func(ctx context.Context, live plan.Live) (*plan.Plan, error)
}

// Result is the result of a Step.
type Result struct {
	// Writes are the writes to the cluster.
	Writes []Write
	// Ended says how the deletion of the NodeSync has ended; empty while it has not.
	Ended string
}

// Memory is what one reconcile leaves to the next so that unchanged things are not done
// again. The zero value remembers nothing.
type Memory struct {
	// applied is the record of what was applied; nil until it is read.
	applied *apply.RecordStore
	// lost are the NodePools whose nodes were reported lost with them.
	lost map[types.UID]bool
	// askedAt is when EC2 was asked last about removals, and absent are the instances that
	// its answers lack, and for how long.
	askedAt time.Time
	absent  map[string]Absence
	// evicted are the NodeClaims that end and whose pods are noted.
	evicted map[types.UID]bool
	// settled reports whether no pod is left without a node by a removal.
	settled bool
	// lease is the newest renewal of the lease of Karpenter's controller.
	lease upgrade.Renewal
	// diagnosedAt is when what keeps the nodes of removals was looked for.
	diagnosedAt time.Time
}

// wakeNow asks for a reconcile at once.
func (s *Step) wakeNow() { s.WakeBy(s.Now) }

// timestamp is the reconcile's time as status holds it.
func (s *Step) timestamp() metav1.Time { return metav1.NewTime(s.Now.Truncate(time.Second)) }

// wants reports whether Git has an entry. A NodeSync that is being deleted has none.
func (s *Step) wants(ref render.Ref) bool { return wants(s.Set, ref) }

func wants(set *render.Set, ref render.Ref) bool {
	return set != nil && slices.ContainsFunc(set.Objects, func(o render.Object) bool { return o.Ref == ref })
}

func (s *Step) owner() plan.Owner { return plan.OwnerOf(s.Sync.Namespace, s.Sync.Name) }

// refOf is the entry of a removal.

// recallApplied reads the record of what was applied, once in the life of the
// process: from then on it is what this process has written.
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

// RecordApplied records what of the NodeSync lives, which after the apply is what
// was applied. An object that this reconcile has created and that vanishes before the
// next one would be known to nobody else.
func (s *Step) RecordApplied(ctx context.Context) (Result, error) {
	return Result{}, s.saveApplied(ctx, nil)
}

// forgetGone takes what is verified gone out of the record.
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

// saveApplied writes the record where it changes. What another writer has made of
// it is read by the next reconcile.
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
		next.Revision = "" // it stays lost until what it lacks is recorded as held
	}
	if err := store.Save(ctx, s.Client, s.Sync, next); err != nil {
		s.Memory.applied = nil
		return err
	}
	return nil
}

// AppliedRevision is the newest revision of which anything was written, by the record; empty
// if that was not read, or lacks it.
func (m *Memory) AppliedRevision() string {
	if m.applied == nil {
		return ""
	}
	return m.applied.Record.Revision
}

// RecordLost reports whether the record which was read is not the one of what lives; see RecordLost.
func (m *Memory) RecordLost(owner plan.Owner, live plan.Live, set *render.Set) bool {
	return m.applied != nil && RecordLost(m.applied, owner, live, set)
}

// RecordLost reports whether a record is not the one of what lives: it was deleted, or has lost its
// revision, or was restored to one that is older than a NodePool that left Git. The name of each
// is recorded before it is created or adopted.
func RecordLost(store *apply.RecordStore, owner plan.Owner, live plan.Live, set *render.Set) bool {
	if store.Lost() {
		return true
	}
	label, _ := owner.Label()
	for ref, object := range live.Objects {
		if ref.Kind == render.NodePool && !store.Record.Pools[ref.Name] && object.OwnerLabel() == label &&
			owner.Owns(object) && plan.Applied(object.Unstructured) && !wants(set, ref) {
			return true
		}
	}
	return false
}

// RecordNames records the names of the NodePools that are about to become the NodeSync's. What
// it cannot write RecordApplied cannot either, which is an error once the definitions are written.
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

// Recorded are the objects that this NodeSync has applied, by its record; nil before it was
// read. The map is read only.
func (s *Step) Recorded() map[render.Ref]types.UID {
	if s.Memory.applied == nil {
		return nil
	}
	return s.Memory.applied.Record.Objects
}

// owned are the live objects that this NodeSync has applied. Of one that is
// recorded the label reports whether it still is; to read managedFields costs more.
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

// reasonVanished is that of a removal whose object another client has deleted.
const reasonVanished = "Vanished"

// recordCandidates writes down what leaves, held or not. It is acted on once the
// record is read back.
func (s *Step) recordCandidates() {
	now := s.timestamp()
	for _, c := range s.Plan.Removals {
		if c.Recorded {
			s.note(c)
			continue
		}
		removal := v1alpha1.Removal{
			Kind: c.Ref.Kind, Name: c.Ref.Name, UID: c.UID, Revision: c.Revision,
			RecordedAt: now, Phase: v1alpha1.RemovalPacing, Since: now, LastProgress: now,
			MovesTo: c.MovesTo, Remaining: int32(c.Nodes), Reason: c.Reason, Message: c.Message, Reasons: severalOf(c),
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

// note notes of a recorded removal what is new: which revision lacks it, where it is held since the branch was, or
// may have been, set back, and was set back once more, and where a drain takes it over, or is over; where its nodes
// move to; and the digest of what was held of it and was approved.
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

// severalOf are the reasons for which a candidate is held, if there is more than one.
func severalOf(c plan.Candidate) []string {
	if len(c.Holds) < 2 {
		return nil
	}
	var reasons []string
	for _, h := range c.Holds {
		reasons = append(reasons, h.Reason)
	}
	return reasons
}

// heldAsOlder reports whether a candidate is held since HEAD is, or may be, older.
func heldAsOlder(c plan.Candidate) bool {
	return slices.Contains([]string{v1alpha1.ReasonOlderRevision, v1alpha1.ReasonHistoryUnknown}, c.Reason)
}

// predate lets no removal be younger than what this reconcile has made: that is new to
// each of them. The times are those of two clocks, one of which may have jumped.
func (s *Step) predate() {
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
