package plan

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// Plan is the Set against the live cluster.
type Plan struct {
	// Revision that the Plan is for.
	Revision string
	// NodeSync is the namespace and name of the one that it is made for, Cluster the name of its
	// cluster, and Nodes how many of its NodeClaims are the NodeSync's; empty where nothing is
	// known of a cluster.
	NodeSync, Cluster string
	Nodes             int
	// Refused is why nothing of the Plan may be done: a policy denies it, or cannot be evaluated; nil
	// where it may. Where Questions are open, their answers may change it.
	Refused error
	// Changes are the objects that are not as Git says, in the order of their
	// Stages, then by name. An object that is as Git says is not in it.
	Changes []Change
	// Removals are the entries that leave: those that were recorded and have not
	// ended a node yet, weighed again, and those that nobody has recorded yet.
	Removals []Candidate
	// Returned are recorded removals that Git has an entry for again, and those that
	// are handed over. None of them may be driven on. The record of one ends when its
	// Change is applied, or at once where it has no Change.
	Returned []v1alpha1.Removal
	// Kept are the entries that left and stay because of another NodeSync. Those that
	// are recorded and not Returned keep their record, and are not driven on.
	Kept []Kept
	// Used are the objects that a person has released and that Git has: the release ends.
	Used []Used
	// UsedReleases are the UIDs whose release counts no more, these among them, sorted.
	UsedReleases []types.UID
	// InUse are the classes that were deleted while NodePools name them, the oldest
	// first.
	InUse []InUse
	// Extra are the objects with fields that Git does not write and that stay, in the order
	// of their Stages, then by name.
	Extra []Extra
	// DaemonSets are those of the cluster that nodes need until their last pod has ended.
	DaemonSets DaemonSets
	// Warnings are sentences a person should read.
	Warnings []string
	// Landing is whether the pods of pools that leave find a place elsewhere.
	Landing Landing
	// Frozen is why removals, and Changes that end or replace nodes, wait.
	Frozen Frozen
	// Approvable is what is held and people may approve; nil where nothing is.
	Approvable *Approvable
	// Digest names what would be done: equal Digests, equal writes.
	Digest string
	// WeighedBy is a digest of what it was weighed by: guard, policies and Karpenter's charts.
	WeighedBy string
	// Memo goes into the next Plan's Live, and saves it the comparison of what has
	// not changed since.
	Memo Memo
}

// Used is an object whose release is used up.
type Used struct {
	Ref render.Ref
	UID types.UID
}

// Change is what would be done with one object of the Set.
type Change struct {
	Ref    render.Ref
	Action Action
	// Reason is one CamelCase word; Message says it to a person. Neither changes
	// while nothing changes.
	Reason, Message string
	// WaitsFor names what an Action of Wait waits for.
	WaitsFor string
	// WaitsSince is since when it waits for another NodeSync; zero where that began now, or
	// where it waits for anything else.
	WaitsSince time.Time
	// Fields are the fields that would change, by path.
	Fields []Field
	// Editors are the field managers, other than ours, that own such a field, and Edited are those
	// fields.
	Editors []string
	Edited  []Field
	// Takeover says that fields of interactive managers have to become ours
	// before the object is applied, which costs a write more. Taken are the paths of fields
	// that have to, whichever manager has written them.
	Takeover bool
	Taken    [][]string
	// Drift says that Git has not changed since the object was as Git says: another client
	// has changed or deleted it.
	Drift bool
	// Rescue says that no commit has made it, but the rescue of a class that was deleted.
	Rescue bool
	// Restores says of a TakeBack that it brings nothing new: the entry is what it was as its
	// removal was recorded, or its rollout was stopped.
	Restores bool
	// Reverts are of a change amid a freeze the NodePools in which it takes back one that is being
	// rolled out, sorted; nil where it does so in none.
	Reverts []string
	// Force says that the object is applied over other managers' fields.
	Force  bool
	Effect Effect
	// Nodes is the number of NodeClaims that the Effect is on. UpTo says that it is
	// no more than that: which of them cannot be told.
	Nodes int
	UpTo  bool
	// Unavailable is what plumbline lacks to tell which, and what to do about it; empty where it
	// lacks nothing.
	Unavailable string
	// DriftReasons are those for which Karpenter will find these nodes Drifted; empty where it
	// is not for a change of the definitions that they end.
	DriftReasons []string
	// Warnings are sentences on what it does to nodes beside the Effect.
	Warnings []string
	// Notes are sentences on what it changes beside that.
	Notes []string
	// rewritten are the paths of fields that mean the same as before, and by which Karpenter
	// counts nodes as outdated.
	rewritten []string
	// wanted is what Wanted returns; nil where that is Git's object.
	wanted *unstructured.Unstructured
	// differences are the Fields, as values.
	differences []difference
	// touched are the NodeClaims that the Effect is on, and unnamed is how many more it
	// is on, nobody can say which.
	touched []types.UID
	// texts are what its Object says of itself in digests; nil where nothing was compared with it.
	texts *texts
	// Holds are all reasons for which it is held, the most severe first, and unheld is its Action without them.
	Holds  []HoldReason
	unheld Action
	// policies are those that hold it.
	policies []string
	// consolidated are the NodeClaims that Karpenter may consolidate after it and could not before, without those that it touches
	// in another way. loads is what is read of nodes to tell which these are; nil if nothing is.
	consolidated []types.UID
	loads        *LoadQuestion
	// expiring are as many NodeClaims as expire within guard.removalPeriod after it, whatever disruption budgets say.
	expiring []types.UID
	// blind is what Blind says.
	blind   bool
	unnamed int
	// question is what AWS has to be asked for the Effect to be exact; nil where nothing.
	question *Question
	// Object is what Git says. Braked says that it is applied without its disruption budgets.
	Object render.Object
	Braked bool
	// Settles are the disruption budgets that the removal's manager gives a pool which Git has again, instead of Git's, until
	// Karpenter finds that its nodes match; nil where Git's come back at once.
	Settles []any
	// Live is what the cluster has; nil where it has nothing.
	Live *unstructured.Unstructured
	// Err is the typed error of an Action that is Refuse or Conflict.
	Err error
}

// Field is one field that would change. An absent value is the empty string.
type Field struct {
	Path string `json:"path"`
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// Action is what is done with one object.
type Action string

// The Actions.
const (
	// None: the object is as Git says.
	None Action = "None"
	// Create: the cluster does not have it.
	Create Action = "Create"
	// Update: it differs from Git.
	Update Action = "Update"
	// Adopt: it exists without our label, and the policy lets us take it over.
	Adopt Action = "Adopt"
	// TakeBack: it was leaving, and Git has the entry again, or its rollout was stopped, and is no
	// more.
	TakeBack Action = "TakeBack"
	// Wait: nothing can be written yet; WaitsFor says for what.
	Wait Action = "Wait"
	// Conflict: it is another client's, or one of its fields is.
	Conflict Action = "Conflict"
	// Refuse: the API server would refuse it, whenever it is tried.
	Refuse Action = "Refuse"
	// Drifted: it differs from Git, and the policy is only to report that.
	Drifted Action = "Drifted"
	// Hold: it would disrupt more nodes than the guard allows, and is not written.
	Hold Action = "Hold"
)

// Writes says whether the Action writes the object.
func (a Action) Writes() bool {
	return a == Create || a == Update || a == Adopt || a == TakeBack
}

// Effect is what a Change does to nodes.
type Effect string

// The Effects.
const (
	EffectNone Effect = "None"
	// EffectReplace: Karpenter will replace nodes at the pace of its budgets.
	EffectReplace Effect = "Replace"
	// EffectDrain: the nodes end, without a replacement in their pool and past its
	// budgets.
	EffectDrain Effect = "Drain"
	// EffectConsolidate: Karpenter may terminate nodes that are empty or underused, which it could not before, within its
	// budgets; it may launch fewer or cheaper ones for the pods of these.
	EffectConsolidate Effect = "Consolidate"
	// EffectBlocked: nothing is done.
	EffectBlocked Effect = "Blocked"
)

// Disrupts reports whether nodes are terminated or replaced by it.
func (e Effect) Disrupts() bool {
	return e == EffectReplace || e == EffectDrain || e == EffectConsolidate
}

// Empty says that there is nothing to do and nothing to say.
func (p *Plan) Empty() bool {
	return len(p.Changes) == 0 && len(p.Removals) == 0 && len(p.Returned) == 0 && len(p.Kept) == 0
}

// Err joins the errors of the Changes that are refused or in conflict; nil
// where none is.
func (p *Plan) Err() error {
	errs := make([]error, 0, len(p.Changes))
	for i := range p.Changes {
		errs = append(errs, p.Changes[i].Err)
	}
	return errors.Join(errs...)
}
