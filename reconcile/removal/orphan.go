package removal

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/dustin/go-humanize/english"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/owners"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// Orphan keeps every object and its nodes, and removes plumbline's label.
func (s *Step) Orphan(ctx context.Context) (Result, error) {
	goes, err := s.namespaceGoes(ctx)
	if err != nil {
		return Result{}, err
	}
	world := s.world()
	world.RecordsGo = goes
	done, err := OrphanAll(ctx, world, s.Sync, s.owner())
	if err != nil {
		return Result{}, err
	}
	if !done {
		s.Wait("objects", "plumbline removes its label from them")
		s.wakeNow()
		return Result{}, nil
	}
	if goes {
		s.Memory.applied = &apply.RecordStore{} // the record is deleted with the namespace
	}
	if err := s.recallApplied(ctx); err != nil {
		return Result{}, err
	}
	how := s.leftNodes()
	if err := s.Memory.applied.Drop(ctx, s.Client); err != nil {
		s.Memory.applied = nil
		return Result{}, err
	}
	return Result{Ended: how}, nil
}

// orphanEntries orphans the entries for which people have approved that. It saves the record of applied objects without
// these entries first; otherwise an object in the record without plumbline's label looks as if another client had
// removed the label. Each removal is complete when the cache shows the object without the label.
func (s *Step) orphanEntries(ctx context.Context) error {
	uids := map[types.UID]bool{}
	for i := range s.Plan.Removals {
		if c := &s.Plan.Removals[i]; leavesAsIs(c) {
			uids[c.UID] = true
		}
	}
	if len(uids) == 0 {
		return nil
	}
	if err := s.saveApplied(ctx, uids); err != nil {
		return err
	}
	done, err := Orphan(ctx, s.world(), s.Sync, s.owner(), uids)
	if err == nil && !done {
		s.wakeNow()
	}
	return err
}

// leavesAsIs reports whether the removal of an entry is recorded, and people have approved that the entry is orphaned.
func leavesAsIs(c *plan.Candidate) bool { return c.Orphan && c.Recorded && !c.Held }

// leftAsIs reports whether the entry of a removal is orphaned.
func (s *Step) leftAsIs(uid types.UID) bool {
	return slices.ContainsFunc(s.Plan.Removals, func(c plan.Candidate) bool { return c.UID == uid && leavesAsIs(&c) })
}

// leftUnmanaged returns the message that a removal is complete because its object was orphaned, with the number of nodes; empty
// if the object is not orphaned.
func (s *Step) leftUnmanaged(r v1alpha1.Removal) string {
	object := s.Live.Objects[plan.RefOf(r)]
	if object == nil || object.GetUID() != r.UID || !object.IsOrphaned(s.owner()) {
		return ""
	}
	nodes := 0
	for i := range s.Live.NodeClaims {
		if r.Kind == render.NodePool && s.Live.NodeClaims[i].Pool == r.Name {
			nodes++
		}
	}
	return fmt.Sprintf("%s is no longer managed by any NodeSync, as approved; %s running",
		plan.RefOf(r), english.Plural(nodes, "node keeps", "nodes keep"))
}

// Orphaned returns the NodePools with nodes that this NodeSync no longer manages and that no other tool applies.
func (s *Step) Orphaned() []plan.OrphanedPool { return s.Live.Orphaned(s.owner()) }

// leftNodes returns the message about the nodes that keep running. A NodeClaim that is already terminating cannot be kept,
// and Orphan does not wait for it.
func (s *Step) leftNodes() string {
	const left = "its objects are no longer managed; their nodes keep running"
	pools := map[types.UID]bool{}
	for _, uid := range s.owned() {
		pools[uid] = true
	}
	for _, uid := range s.Memory.applied.Record.Objects {
		pools[uid] = true
	}
	for _, r := range s.Before.Status.Removals {
		pools[r.UID] = true
	}
	ending := 0
	for _, n := range s.Live.NodeClaims {
		if n.Deleting && pools[n.PoolUID] {
			ending++
		}
	}
	if ending == 0 {
		return left
	}
	return fmt.Sprintf("%s; Karpenter still terminates %s that %s already terminating",
		left, english.Plural(ending, "NodeClaim", ""), english.PluralWord(ending, "was", "were"))
}

// world returns what a removal reads and writes. It reads past the cache if the API is not served: such an API has no
// watch, and the cache would wait for one.
func (s *Step) world() World {
	cache := client.Reader(s.Nodes.Client)
	if !s.Served {
		cache = s.Nodes.Uncached
	}
	return World{
		Cache: cache, Live: s.Nodes.Uncached, Writer: s.Nodes.Client,
		Home: Home{Reader: s.Uncached, Writer: s.Client}, StillLeader: s.StillLeader,
	}
}

// relabelled returns the live objects that this NodeSync has applied and whose ownership label was changed by hand, by
// reference. plumbline must not remove them, and they are not another NodeSync's either.
func (s *Step) relabelled(ctx context.Context) (map[render.Ref]types.UID, error) {
	if s.Memory.applied == nil {
		return nil, nil
	}
	owner := s.owner()
	label, annotation := owner.Label()
	found := map[render.Ref]types.UID{}
	var goesTo func(*unstructured.Unstructured) string
	for ref, uid := range s.Memory.applied.Record.Objects {
		object := s.Live.Objects[ref]
		if object == nil || object.GetUID() != uid || object.OwnerLabel() == label && (annotation == "" || owner.Owns(object)) ||
			!plan.Applied(object.Unstructured) {
			continue
		}
		if goesTo == nil {
			var err error
			if goesTo, err = s.NewOwner(ctx); err != nil {
				return nil, err
			}
		}
		if goesTo(object.Unstructured) == "" {
			found[ref] = uid
		}
	}
	return found, nil
}

// leftRelabelled returns the relabelled objects that were removed from Git, in order. It omits objects that are being
// deleted, since they need no action.
func (s *Step) leftRelabelled(ctx context.Context) ([]render.Ref, error) {
	found, err := s.relabelled(ctx)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(found, func(ref render.Ref, _ types.UID) bool {
		return s.inGit(ref) || s.Live.Objects[ref].GetDeletionTimestamp() != nil
	})
	return slices.SortedFunc(maps.Keys(found), func(a, b render.Ref) int { return cmp.Compare(a.String(), b.String()) }), nil
}

// Relabelled reports whether a relabelled object was removed from Git. Once its label is set again, the object is a removal
// candidate like any other.
func (s *Step) Relabelled(ctx context.Context) (bool, error) {
	left, err := s.leftRelabelled(ctx)
	return len(left) > 0, err
}

// awaitRelabelled records a wait for each relabelled object that was removed from Git, and reports whether there is any.
func (s *Step) awaitRelabelled(ctx context.Context) (waits bool, err error) {
	left, err := s.leftRelabelled(ctx)
	if err != nil {
		return false, err
	}
	for _, ref := range left {
		s.Wait(ref.String(), "it was removed from Git, but "+s.wayOut())
	}
	return len(left) > 0, nil
}

// wayOut returns the reason why a relabelled object is not removed, and what to do.
func (s *Step) wayOut() string {
	return fmt.Sprintf("another client changed its label %s, %s", v1alpha1.OwnerLabel, s.owner().LabelAgain())
}

// unremoved returns, for each relabelled object that was removed from Git, why it is not removed. The removal of
// an EC2NodeClass reports this if such a NodePool references it.
func (s *Step) unremoved(ctx context.Context) (map[string]string, error) {
	left, err := s.leftRelabelled(ctx)
	if err != nil {
		return nil, err
	}
	why := map[string]string{}
	for _, ref := range left {
		why[ref.String()] = s.wayOut()
	}
	return why, nil
}

// Appliers returns the other clients that apply objects of a NodeSync that is deleted with its nodes, each with the objects it
// applies: they would recreate the objects. `plumbline teardown` finds them the same way.
func (s *Step) Appliers() []string {
	if s.Sync.DeletionTimestamp.IsZero() || !s.Sync.DrainsNodes() {
		return nil
	}
	applied := map[string][]string{}
	note := func(name string, object metav1.Object) {
		for _, by := range owners.All(object) {
			applied[by.String()] = append(applied[by.String()], name)
		}
	}
	note("NodeSync/"+s.Sync.Name, s.Sync)
	var found []string
	for ref, object := range s.Live.Objects {
		if s.isRecreated(ref, object) {
			found = append(found, s.recreatedMessage(ref, object))
		} else if s.ownedOrRecorded(object) {
			note(ref.String(), object)
		}
	}
	for by, names := range applied {
		slices.Sort(names)
		found = append(found, by+" applies "+finding.Some(names))
	}
	slices.Sort(found)
	return found
}

// ownedOrRecorded reports whether the NodeSync owns an object, or the object's removal is recorded.
func (s *Step) ownedOrRecorded(object metav1.Object) bool {
	return s.owner().Owns(object) ||
		slices.ContainsFunc(s.Sync.Status.Removals, func(r v1alpha1.Removal) bool { return r.UID == object.GetUID() })
}

// isRecreated reports whether another client has recreated a NodePool of the NodeSync since the NodeSync was deleted. A
// NodePool that was created before does not count, nor does one of another NodeSync.
func (s *Step) isRecreated(ref render.Ref, object *plan.Object) bool {
	store := s.Memory.applied
	if ref.Kind != render.NodePool || store == nil || !store.Record.Pools[ref.Name] || s.ownedOrRecorded(object) {
		return false
	}
	_, owned := plan.OwnerNamed(object)
	return !owned && !object.GetCreationTimestamp().Time.Before(s.Sync.DeletionTimestamp.Time)
}

// recreatedMessage returns the message that names the client that has recreated a NodePool.
func (s *Step) recreatedMessage(ref render.Ref, object metav1.Object) string {
	by := "another client"
	if all := owners.All(object); len(all) > 0 {
		by = all[0].String()
	} else if manager := owners.Of(object).Manager; manager != "" {
		by += " (field manager " + manager + ")"
	}
	return fmt.Sprintf("%s was recreated by %s", ref, by)
}

// awaitRecreated waits for a NodePool that was recreated and has nodes, because the drain is not complete while these
// run. It only returns the message about one without a node.
func (s *Step) awaitRecreated(live plan.Live) (named []string, waits bool) {
	for _, ref := range slices.SortedFunc(maps.Keys(live.Objects), func(a, b render.Ref) int { return cmp.Compare(a.Name, b.Name) }) {
		object := live.Objects[ref]
		if !s.isRecreated(ref, object) {
			continue
		}
		words := s.recreatedMessage(ref, object)
		if slices.ContainsFunc(live.NodeClaims, func(c plan.NodeClaim) bool { return c.PoolUID == object.GetUID() }) {
			s.WaitFor(ref.String(), words+" during this drain, and it has nodes: remove it there and delete it, or set onDelete: Orphan to keep it",
				object.GetCreationTimestamp().Time, s.Sync.GetStallAfter())
			s.WakeBy(s.Now.Add(s.AskEvery))
			return nil, true
		}
		named = append(named, words)
	}
	return named, false
}
