package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// Candidate is one entry that has left the repository and has not ended a node yet.
type Candidate struct {
	Ref render.Ref
	UID types.UID
	// Revision is the first revision without the entry.
	Revision string
	// Recorded reports whether the status has it already.
	Recorded bool
	// Held reports whether the guard does not let it go; Reason is one word for why,
	// and Message says what releases it. Empty if it may go.
	Held            bool
	Reason, Message string
	// Holds are all reasons for which it is held, the most severe first, which is Reason.
	Holds []HoldReason
	// Queued reports whether it fits into the guard's limits, but not before removals that are in progress are
	// complete: it starts by itself then. Reason and Message are set, too. What is held is not queued.
	Queued bool
	// Approved is the digest of what was held of it and was approved; empty if nothing was.
	Approved string
	// Nodes is the number of NodeClaims of a NodePool: they go with it.
	Nodes int
	// Orphan reports whether it is left to itself instead, and Leaves is how many NodeClaims are left then:
	// none goes with it. Keeper is what else has it stay, as a sentence of which it is the subject.
	Orphan bool
	Leaves int
	Keeper string
	// Terminating reports whether another client has deleted the object already, and that its
	// NodeClaims end with it.
	Terminating bool
	// Vanished reports whether the object is not there any more.
	Vanished bool
	// MovesTo are the names of the near-equal entries of Git that take its place, the most alike
	// first; empty if none does.
	MovesTo []string

	// Last says of a NodePool that Git has none left that may grow.
	Last bool

	record v1alpha1.Removal
	// undoes reports whether it has no node and was to take the place of a NodePool that Git has again.
	undoes bool
	// approved are the reasons and pods for which people have approved it.
	approved approved
	// pods are those that would be pending.
	pods []v1alpha1.PendingPods
	// policies are those that hold it.
	policies []string
	// taken reports whether the object was ours when its removal was recorded, and has not the mark
	// any more by which that is known.
	taken bool
	// undecided reports whether only a drain has recorded its removal, which is over: what a commit lacks is
	// weighed as if it had left now.
	undecided bool
}

// candidates are the owned objects that the Set lacks, weighed by the guard: those
// that were recorded and have not ended a NodeClaim yet, oldest first, then those
// that are Held, and the new ones by name. What was recorded stays one where a person
// changes its label: the guard would forget it, and its removal would go on.
func (m *maker) candidates(revision string) []Candidate {
	var found []Candidate
	for ref, object := range m.live.Objects {
		if m.stays(ref, object) {
			continue
		}
		owned := m.owns(object)
		if !owned && !m.leftUnbegun(object) {
			continue
		}
		c := Candidate{Ref: ref, UID: object.GetUID(), Revision: revision, Terminating: terminating(object), taken: !owned}
		c.Keeper = keeper(object)
		c.Orphan = (m.policy.Orphans || c.Keeper != "") && !m.policy.Deleting && owned && !c.Terminating
		switch nodes := len(m.claims()[ref]); {
		case ref.Kind != render.NodePool:
		case c.Orphan:
			c.Leaves = nodes
		default:
			c.Nodes = nodes
		}
		if m.recorded(&c) {
			found = append(found, c)
		}
	}
	for _, v := range m.live.Vanished {
		c := Candidate{Ref: v.Ref, UID: v.UID, Revision: revision, Vanished: true}
		c.Nodes, c.Terminating = m.remains(v)
		if m.recorded(&c) {
			found = append(found, c)
		}
	}
	slices.SortFunc(found, func(a, b Candidate) int {
		return cmp.Or(
			cmp.Compare(a.turn(), b.turn()),
			a.record.RecordedAt.Compare(b.record.RecordedAt.Time),
			cmp.Compare(a.Revision, b.Revision),
			// Removal runs the Stages backwards.
			cmp.Compare(stageIndex(b.Ref), stageIndex(a.Ref)),
			cmp.Compare(a.Ref.Name, b.Ref.Name),
		)
	})
	m.findMoves(found)
	m.findLast(found)
	m.approve(found)
	m.weigh(found, revision)
	return found
}

// stays reports whether an object does not leave, whether it is the NodeSync's or not.
func (m *maker) stays(ref render.Ref, object *Object) bool {
	return m.inSet[ref] || m.kept[object.GetUID()] || m.policy.Keeps && ref.Kind != render.NodePool
}

// findLast finds which candidates would leave Git without a NodePool that may grow.
func (m *maker) findLast(candidates []Candidate) {
	last := len(candidates) > 0 && !m.poolsInSet()
	for i := range candidates {
		candidates[i].Last = last && candidates[i].Ref.Kind == render.NodePool
	}
}

// leftUnbegun reports whether an object that is not ours by its label has a removal that has not
// ended a node, and goes to no other NodeSync.
func (m *maker) leftUnbegun(object *Object) bool {
	record, ok := m.live.removal(object.GetUID())
	return ok && !m.begun(record) && !m.passedOn(record) && !m.forgotten(record)
}

// forgotten reports whether a removal that has not begun is of an object that is not ours by its
// label, and that is not recorded as ours either: a person has had it forgotten, to keep it.
func (m *maker) forgotten(r v1alpha1.Removal) bool {
	object := m.live.object(RefOf(r))
	return object != nil && object.GetUID() == r.UID && !m.begun(r) &&
		m.live.Recorded != nil && !m.live.recorded(object.Unstructured) && !m.owns(object)
}

// recorded takes what the status has of a candidate. It is none if its removal
// has ended NodeClaims, unless that was before the status was restored.
func (m *maker) recorded(c *Candidate) bool {
	record, ok := m.live.removal(c.UID)
	if !ok {
		c.record = m.withMoves(c.UID, record)
		return true
	}
	c.Recorded, c.record, c.undecided = true, record, m.undecided(record)
	setBack := ofOlderRevision(record) && (m.policy.SetBack || m.policy.HistoryUnknown) // once more
	drained := m.policy.Keeps && record.Phase == v1alpha1.RemovalHeld                   // whatever has held it
	if !setBack && !drained && !c.undecided {
		c.Revision = record.Revision
	}
	return !m.begun(record) || m.policy.StatusOlder
}

// undecided reports whether a removal was recorded by a drain that is over: no commit was weighed for it.
func (m *maker) undecided(r v1alpha1.Removal) bool {
	return r.Revision == RevisionDeleted && !m.policy.Deleting
}

// begun reports whether a removal has ended NodeClaims, or may have, and that it goes on by that.
func (m *maker) begun(r v1alpha1.Removal) bool { return r.Begun() && !m.undecided(r) }

// remains counts the NodeClaims that a vanished pool has left, and reports whether
// all of them are ending: those of one that was deleted with --cascade=orphan run
// on.
func (m *maker) remains(v Vanished) (nodes int, ending bool) {
	ending = true
	taken := m.live.object(v.Ref) != nil
	for _, n := range m.live.NodeClaims {
		orphan := n.PoolUID == "" && n.Pool == v.Ref.Name && !taken
		if n.PoolUID == v.UID || orphan {
			nodes++
			ending = ending && n.Deleting
		}
	}
	return nodes, ending
}

// turn is when a candidate is weighed: what is in progress, what is held, what is new.
func (c Candidate) turn() int {
	switch {
	case !c.Recorded, c.undecided:
		return 2
	case c.record.Phase == v1alpha1.RemovalHeld:
		return 1
	}
	return 0
}

// emptying reports whether all nodes of a pool end, and not by Karpenter's own
// disruption: commits that take a pool out and put it back would otherwise drain
// one after another.
func (m *maker) emptying(ref render.Ref) bool {
	claims := m.claims()[ref]
	running := func(c *NodeClaim) bool { return !c.Deleting }
	ended := func(c *NodeClaim) bool { return c.Deleting && !c.Disrupted }
	return !slices.ContainsFunc(claims, running) && slices.ContainsFunc(claims, ended)
}

// back reports whether Git has an entry again that is not past saving.
func (m *maker) back(r v1alpha1.Removal) bool {
	if m.changes[RefOf(r)].Reason == ReasonRecreated {
		return false
	}
	object := m.live.object(RefOf(r))
	return m.inSet[RefOf(r)] && object != nil && object.GetUID() == r.UID && !terminating(object)
}

// poolsInSet reports whether Git has a NodePool left that may grow.
func (m *maker) poolsInSet() bool {
	return slices.ContainsFunc(m.objects, func(o render.Object) bool {
		return o.Ref.Kind == render.NodePool && MayGrow(o.Desired)
	})
}

// A person releases a removal for once: as soon as Git has the object, the release is used up,
// or else the same UID would release the next removal as well, which nobody was asked about.

// annotated are the UIDs in the annotation, which stand between commas.
func annotated(sync *v1alpha1.NodeSync) map[types.UID]bool {
	uids := map[types.UID]bool{}
	for uid := range strings.SplitSeq(sync.Annotations[v1alpha1.RemoveAnnotation], ",") {
		if uid = strings.TrimSpace(uid); uid != "" {
			uids[types.UID(uid)] = true
		}
	}
	return uids
}

// usedUp are the UIDs in the annotation that release nothing any more. Where the status was
// lost, it is unknown which: only a removal that is recorded since can have been released since.
func usedUp(sync *v1alpha1.NodeSync) map[types.UID]bool {
	lost := sync.Status.LastAppliedRevision == ""
	uids := annotated(sync)
	maps.DeleteFunc(uids, func(uid types.UID, _ bool) bool {
		recorded := slices.ContainsFunc(sync.Status.Removals, func(r v1alpha1.Removal) bool { return r.UID == uid })
		return !slices.Contains(sync.Status.UsedReleases, uid) && (!lost || recorded)
	})
	return uids
}

// released are the removals that a person has released by name.
func released(sync *v1alpha1.NodeSync) map[types.UID]bool {
	uids := annotated(sync)
	for uid := range usedUp(sync) {
		delete(uids, uid)
	}
	return uids
}

// usedReleases are the releases that are used up with this Plan, sorted. What the annotation
// lacks is not among them: put in again, it counts again.
func (m *maker) usedReleases(now []Used) []types.UID {
	all := map[types.UID]bool{}
	maps.Copy(all, m.policy.UsedUp)
	for _, u := range now {
		all[u.UID] = true
	}
	if len(all) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(all))
}

// used are the released objects that Git has.
func (m *maker) used() []Used {
	if len(m.policy.Released) == 0 {
		return nil
	}
	var found []Used
	for ref := range m.inSet {
		if object := m.live.object(ref); object != nil && m.policy.Released[object.GetUID()] {
			found = append(found, Used{Ref: ref, UID: object.GetUID()})
		}
	}
	slices.SortFunc(found, func(a, b Used) int { return strings.Compare(string(a.UID), string(b.UID)) })
	return found
}

// howToRelease says how a person releases a removal.
func (p Policy) howToRelease(uid types.UID) string {
	if p.UsedUp[uid] {
		return fmt.Sprintf("take %s out of the annotation %s of the NodeSync, where its release was used up when Git had it, and put it in again once status.usedReleases lacks it",
			uid, v1alpha1.RemoveAnnotation)
	}
	return fmt.Sprintf("annotate the NodeSync with %s=%s", v1alpha1.RemoveAnnotation, uid)
}

// Definition is a digest of an object's spec. Fields that a CRD has defaults for are there in
// what lives, and in render.Object's Defaulted.
func Definition(object *unstructured.Unstructured) string {
	sum := sha256.Sum256([]byte(canonical(object.Object["spec"])))
	return hex.EncodeToString(sum[:])
}

// asRecorded reports whether Git has an entry again just as it lived when its removal was recorded.
// Where that is not known it counts as changed: a commit that takes a pool out and the next
// that brings another of its name pass neither guard nor policies by that.
func (m *maker) asRecorded(change *Change) bool {
	record, recorded := m.live.removal(change.Live.GetUID())
	return recorded && record.Definition != "" && record.Definition == Definition(change.Object.Defaulted)
}

// onlyTheBrake reports whether the brake goes from a NodePool, and nothing else becomes other than
// it was with it.
func onlyTheBrake(change *Change) bool {
	return change.onlyBudgets() && reflect.DeepEqual(WithoutBrake(change.Live), BudgetsOf(change.Object.Defaulted))
}
