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

// Candidate is an object that was removed from Git and none of whose nodes was terminated yet.
type Candidate struct {
	Ref render.Ref
	UID types.UID
	// Revision is the first revision without the object.
	Revision string
	// Recorded reports whether the status contains the removal already.
	Recorded bool
	// Held reports whether the guard blocks the removal; Reason is one word for why,
	// and Message describes what releases it. Both are empty if the removal may proceed.
	Held            bool
	Reason, Message string
	// Holds are all reasons to hold the removal, the most severe first, which is Reason.
	Holds []HoldReason
	// Queued reports whether the removal is within the guard's limits, but only after removals in progress are
	// complete: then it starts by itself. Reason and Message are set, too. A held removal is not queued.
	Queued bool
	// Approved is the digest of the held part that was approved; empty if there is none.
	Approved string
	// Nodes is the number of a NodePool's NodeClaims, which are removed with it. For a CapacityBuffer it is how many
	// nodes Karpenter may consolidate at most once the buffer is gone, and UpTo is true.
	Nodes int
	UpTo  bool
	// Orphan reports whether the object is orphaned instead: Leaves NodeClaims then keep running, and none is removed.
	// Keeper is another reason to keep the object, as a clause whose subject is the object.
	Orphan bool
	Leaves int
	Keeper string
	// Terminating reports whether another client has deleted the object already, so that its
	// NodeClaims are deleted with it.
	Terminating bool
	// Vanished reports whether the object no longer exists.
	Vanished bool
	// MovesTo are the names of the similar objects in Git that replace this one, the most similar first; empty if there
	// are none.
	MovesTo []string

	// Last reports whether the object is a NodePool and Git has no NodePool left that may grow.
	Last bool

	record v1alpha1.Removal
	// revertsMove reports whether it has no node and was to replace a NodePool that Git contains again.
	revertsMove bool
	// approved are the reasons and pods for which people have approved it.
	approved approved
	// pods are the pods that would be pending.
	pods []v1alpha1.PendingPods
	// policies are the policies that hold it.
	policies []string
	// taken reports whether the object was ours when its removal was recorded, but has lost the mark
	// that identifies it as ours.
	taken bool
	// undecided reports whether only a drain, which is over, recorded its removal. The guard then checks the removal as
	// if the object had just been removed from Git.
	undecided bool
}

// candidates returns the owned objects that the Set does not contain, checked by the guard: first the recorded ones
// that have not terminated a NodeClaim yet, oldest first, then the held ones, then the new ones by name. A recorded
// candidate remains one if a person changes its label: otherwise the guard would forget it, and its removal would
// continue.
func (m *maker) candidates(revision string) []Candidate {
	var found []Candidate
	for ref, object := range m.live.Objects {
		if m.isKept(ref, object) {
			continue
		}
		owned := m.owns(object)
		if !owned && !m.unlabelledNotStarted(object) {
			continue
		}
		c := Candidate{Ref: ref, UID: object.GetUID(), Revision: revision, Terminating: terminating(object), taken: !owned}
		c.Keeper = keptBecause(object)
		c.Orphan = (m.policy.Orphans || c.Keeper != "") && !m.policy.Deleting && owned && !c.Terminating
		m.countNodes(&c, object)
		if m.recorded(&c) {
			found = append(found, c)
		}
	}
	for _, v := range m.live.Vanished {
		c := Candidate{Ref: v.Ref, UID: v.UID, Revision: revision, Vanished: true}
		c.Nodes, c.Terminating = m.remainingClaims(v)
		if m.recorded(&c) {
			found = append(found, c)
		}
	}
	slices.SortFunc(found, func(a, b Candidate) int {
		return cmp.Or(
			cmp.Compare(a.evaluationOrder(), b.evaluationOrder()),
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
	m.checkRemovals(found, revision)
	return found
}

// countNodes sets how many nodes the removal of a live object affects, or leaves running.
func (m *maker) countNodes(c *Candidate, object *Object) {
	switch nodes := len(m.claims()[c.Ref]); {
	case c.Ref.Kind == render.CapacityBuffer && !c.Orphan:
		c.Nodes, c.UpTo = m.releasedBy(object.Unstructured), true
	case c.Ref.Kind != render.NodePool:
	case c.Orphan:
		c.Leaves = nodes
	default:
		c.Nodes = nodes
	}
}

// isKept reports whether an object is not removed, whether the NodeSync owns it or not.
func (m *maker) isKept(ref render.Ref, object *Object) bool {
	return m.inSet[ref] || m.kept[object.GetUID()] || m.policy.Keeps && ref.Kind != render.NodePool
}

// findLast marks the candidates whose removal leaves Git without a NodePool that may grow.
func (m *maker) findLast(candidates []Candidate) {
	last := len(candidates) > 0 && !m.poolsInSet()
	for i := range candidates {
		candidates[i].Last = last && candidates[i].Ref.Kind == render.NodePool
	}
}

// unlabelledNotStarted reports whether an object without our label has a removal that has not terminated a node, and
// does not move to another NodeSync.
func (m *maker) unlabelledNotStarted(object *Object) bool {
	record, ok := m.live.removal(object.GetUID())
	return ok && !m.started(record) && !m.handedOver(record) && !m.isDisowned(record)
}

// isDisowned reports whether a removal that has not started is for an object that has neither our label nor a record: a
// person has deleted the record to keep the object.
func (m *maker) isDisowned(r v1alpha1.Removal) bool {
	object := m.live.object(RefOf(r))
	return object != nil && object.GetUID() == r.UID && !m.started(r) &&
		m.live.Recorded != nil && !m.live.recorded(object.Unstructured) && !m.owns(object)
}

// recorded copies the record in status into a candidate. It returns false if the removal has terminated NodeClaims,
// unless that was before the status was restored. If Git contained the object again since the removal was recorded, the
// candidate is a new removal: a person has decided only on the earlier one.
func (m *maker) recorded(c *Candidate) bool {
	record, ok := m.live.removal(c.UID)
	if !ok || record.Returned() && !m.policy.Deleting && !c.Terminating && !c.Vanished {
		c.record = m.withMoves(c.UID, v1alpha1.Removal{})
		return true
	}
	c.Recorded, c.record, c.undecided = true, record, m.undecided(record)
	setBack := ofOlderRevision(record) && (m.policy.BranchReset || m.policy.HistoryUnknown) // as before
	drained := m.policy.Keeps && record.Phase == v1alpha1.RemovalHeld                       // regardless of the reason to hold it
	if !setBack && !drained && !c.undecided {
		c.Revision = record.Revision
	}
	return !m.started(record) || m.policy.StatusOlder
}

// undecided reports whether a removal was recorded by a drain that is over: no commit was checked for it.
func (m *maker) undecided(r v1alpha1.Removal) bool {
	return r.Revision == RevisionDeleted && !m.policy.Deleting
}

// started reports whether a removal has terminated NodeClaims, or may have, and continues for that reason.
func (m *maker) started(r v1alpha1.Removal) bool { return r.Started() && !m.undecided(r) }

// remainingClaims returns how many NodeClaims of a vanished pool remain, and whether all of them are terminating: those
// of a pool that was deleted with --cascade=orphan keep running.
func (m *maker) remainingClaims(v Vanished) (nodes int, ending bool) {
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

// evaluationOrder is the position of a candidate in the order of evaluation: 0 in progress, 1 held, 2 new.
func (c Candidate) evaluationOrder() int {
	switch {
	case !c.Recorded, c.undecided:
		return 2
	case c.record.Phase == v1alpha1.RemovalHeld:
		return 1
	}
	return 0
}

// allNodesTerminating reports whether all nodes of a pool are terminating, and not because of Karpenter's own
// disruption. Such a pool counts as being removed: otherwise commits that remove pools and add them again could drain
// one pool after another.
func (m *maker) allNodesTerminating(ref render.Ref) bool {
	claims := m.claims()[ref]
	running := func(c *NodeClaim) bool { return !c.Deleting }
	ended := func(c *NodeClaim) bool { return c.Deleting && !c.Disrupted }
	return !slices.ContainsFunc(claims, running) && slices.ContainsFunc(claims, ended)
}

// backInGit reports whether Git contains an object again that can still be kept.
func (m *maker) backInGit(r v1alpha1.Removal) bool {
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

// A person releases a removal once: as soon as Git contains the object, the release expires. Otherwise the same UID
// would release the next removal as well, which nobody has decided on.

// annotated returns the UIDs in the annotation, which are separated by commas.
func annotated(sync *v1alpha1.NodeSync) map[types.UID]bool {
	uids := map[types.UID]bool{}
	for uid := range strings.SplitSeq(sync.Annotations[v1alpha1.RemoveAnnotation], ",") {
		if uid = strings.TrimSpace(uid); uid != "" {
			uids[types.UID(uid)] = true
		}
	}
	return uids
}

// usedUp returns the UIDs in the annotation that no longer release anything. If the status was lost, it is unknown
// which these are: only a removal that was recorded since then can have been released since then.
func usedUp(sync *v1alpha1.NodeSync) map[types.UID]bool {
	lost := sync.Status.LastAppliedRevision == ""
	uids := annotated(sync)
	maps.DeleteFunc(uids, func(uid types.UID, _ bool) bool {
		recorded := slices.ContainsFunc(sync.Status.Removals, func(r v1alpha1.Removal) bool { return r.UID == uid })
		return !slices.Contains(sync.Status.UsedReleases, uid) && (!lost || recorded)
	})
	return uids
}

// released returns the removals that a person has released explicitly.
func released(sync *v1alpha1.NodeSync) map[types.UID]bool {
	uids := annotated(sync)
	for uid := range usedUp(sync) {
		delete(uids, uid)
	}
	return uids
}

// usedReleases returns the releases that have expired with this Plan, sorted. It omits a UID that the annotation does
// not contain: if the UID is added again, it counts again.
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

// used returns the released objects that Git contains.
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

// howToRelease returns the instruction to release a removal.
func (p Policy) howToRelease(uid types.UID) string {
	if p.UsedUp[uid] {
		return fmt.Sprintf("remove %s from the annotation %s of the NodeSync, because that release was used up when Git contained the object, and add it again once status.usedReleases no longer lists it",
			uid, v1alpha1.RemoveAnnotation)
	}
	return fmt.Sprintf("annotate the NodeSync with %s=%s", v1alpha1.RemoveAnnotation, uid)
}

// Definition returns a digest of what Git can define of a live object: its spec, and the labels and annotations that
// plumbline has applied, except the owner's. It is empty if the managedFields cannot be read.
func Definition(live *unstructured.Unstructured) string {
	entries, err := managed(live)
	if err != nil {
		return ""
	}
	set := appliedBy(entries, v1alpha1.FieldManager)
	of := func(kind string, marks map[string]string) map[string]string {
		maps.DeleteFunc(marks, func(key, _ string) bool {
			return key == v1alpha1.OwnerLabel || set == nil || !touches(set, []string{"metadata", kind, key})
		})
		return marks
	}
	return definition(live, of("labels", live.GetLabels()), of("annotations", live.GetAnnotations()))
}

// definition returns a digest of the spec of an object, and of labels and annotations. Both a live object and
// render.Object's Defaulted contain the CRD's defaults.
func definition(object *unstructured.Unstructured, labels, annotations map[string]string) string {
	sum := sha256.Sum256([]byte(canonical(object.Object["spec"])))
	spec := hex.EncodeToString(sum[:])
	if len(labels)+len(annotations) == 0 {
		return spec
	}
	sum = sha256.Sum256([]byte(canonical([]any{spec, labels, annotations})))
	return hex.EncodeToString(sum[:])
}

// asRecorded reports whether Git contains an object again exactly as it was in the cluster when its removal was
// recorded. If that is unknown, the object counts as changed: otherwise a commit that removes a pool and a later one
// that adds another pool with its name would bypass guard and policies.
func (m *maker) asRecorded(change *Change) bool {
	record, recorded := m.live.removal(change.Live.GetUID())
	git := change.Object.Defaulted
	return recorded && record.Definition != "" && record.Definition == definition(git, git.GetLabels(), git.GetAnnotations())
}

// onlyTheBrake reports whether the brake is removed from a NodePool and nothing else changes.
func onlyTheBrake(change *Change) bool {
	return change.onlyBudgets() && reflect.DeepEqual(WithoutBrake(change.Live), BudgetsOf(change.Object.Defaulted))
}
