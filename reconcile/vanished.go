package reconcile

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/inventory"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// seeVanished finds the NodePools that were applied and that somebody else has
// deleted. One that Git has is recreated, and its nodes are lost; of one that
// Git does not have any more, nobody has asked EC2 yet: it becomes a removal.
func (p *pass) seeVanished(ctx context.Context) error {
	if !p.served && p.sync.DeletionTimestamp.IsZero() {
		return nil // with the CRDs everything is gone; what comes back is looked at then
	}
	if err := p.recallApplied(ctx); err != nil {
		return err
	}
	var wanted, left []inventory.Entry
	for _, e := range inventory.Vanished(p.memory.inventory.Record, p.live.Objects) {
		switch {
		case e.Ref.Kind != render.NodePool, p.leaves(e.UID):
		case p.wants(e.Ref):
			wanted = append(wanted, e)
		default:
			left = append(left, e)
		}
	}
	missing, err := inventory.Missing(ctx, p.Uncached, left)
	if err != nil {
		return err
	}
	for _, e := range missing {
		p.live.Vanished = append(p.live.Vanished, plan.Vanished{Ref: e.Ref, UID: e.UID})
	}
	return p.tellLostPools(ctx, append(wanted, p.terminating()...))
}

// recallApplied reads the record of what was applied, once in the life of the
// process: from then on it is what this process has written.
func (p *pass) recallApplied(ctx context.Context) error {
	if p.memory.inventory != nil {
		return nil
	}
	store, err := inventory.Load(ctx, p.Uncached, p.sync)
	if err != nil {
		return err
	}
	p.memory.inventory = store
	return nil
}

// leaves says whether the removal of an object has begun: it is held no more.
func (p *pass) leaves(uid types.UID) bool {
	return slices.ContainsFunc(p.sync.Status.Removals, func(r v1alpha1.Removal) bool {
		return r.UID == uid && r.Phase != v1alpha1.RemovalHeld
	})
}

// wants says whether Git has an entry. A NodeSync that is being deleted has none.
func (p *pass) wants(ref render.Ref) bool {
	return p.want.Set != nil && slices.ContainsFunc(p.want.Set.Objects, func(o render.Object) bool { return o.Ref == ref })
}

// terminating are the NodePools of Git that somebody else has deleted in the
// foreground: they are there until their nodes are gone.
func (p *pass) terminating() []inventory.Entry {
	if p.want.Set == nil {
		return nil
	}
	var found []inventory.Entry
	for _, object := range p.want.Set.Objects {
		live := p.live.Objects[object.Ref]
		if object.Ref.Kind != render.NodePool || live == nil || p.leaves(live.GetUID()) {
			continue
		}
		if _, deleted, _ := unstructured.NestedString(live.Object, "metadata", "deletionTimestamp"); deleted {
			found = append(found, inventory.Entry{Ref: object.Ref, UID: live.GetUID()})
		}
	}
	return found
}

// tellLostPools says once which nodes end with a NodePool of Git that was deleted
// by hand. What goes with a CRD was reported with it.
func (p *pass) tellLostPools(ctx context.Context, pools []inventory.Entry) error {
	var names []string
	nodes := 0
	for _, e := range pools {
		if p.memory.lostPools[e.UID] {
			continue
		}
		if p.memory.lostPools == nil {
			p.memory.lostPools = map[types.UID]bool{}
		}
		if orphans := p.orphans(e); len(orphans) > 0 {
			p.memory.lostPools[e.UID] = true
			p.Warn("NodesOrphaned", fmt.Sprintf("a NodePool was deleted by hand with --cascade=orphan, and %d NodeClaims run on without an owner: %s: delete those that are not wanted", len(orphans), finding.Some(orphans)))
			continue
		}
		lost := p.nodesLost(e)
		if len(lost) == 0 {
			continue
		}
		p.memory.lostPools[e.UID] = true
		nodes += len(lost)
		names = append(names, lost...)
	}
	if nodes == 0 {
		return nil
	}
	kind, _ := render.KindOf(render.NodePool)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := p.Client.Get(ctx, client.ObjectKey{Name: kind.CRD}, crd); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read crd %s: %w", kind.CRD, err)
	}
	if crd.DeletionTimestamp != nil {
		return nil
	}
	after := "it is recreated from Git, its nodes end all the same"
	if p.sync.Spec.Drift == v1alpha1.DriftReport {
		after = "it is not recreated, since drift is Report"
	}
	slices.Sort(names)
	p.Warn("NodesLost", fmt.Sprintf("a NodePool was deleted by hand, and %d NodeClaims end with it: %s: %s", nodes, finding.Some(names), after))
	return nil
}

// nodesLost are the NodeClaims, with their nodes, that end with a pool.
func (p *pass) nodesLost(pool inventory.Entry) []string {
	var lost []string
	for _, n := range p.live.NodeClaims {
		if n.PoolUID == pool.UID || n.PoolUID == "" && n.Pool == pool.Ref.Name && n.Deleting {
			lost = append(lost, strings.TrimSuffix(fmt.Sprintf("%s: %s (%s)", pool.Ref, n.Name, n.Node), " ()"))
		}
	}
	return lost
}

// orphans are the NodeClaims, with their nodes, that a pool leaves behind: those of one that is
// being deleted with --cascade=orphan, and those that have lost their owner and do not end.
func (p *pass) orphans(pool inventory.Entry) []string {
	live := p.live.Objects[pool.Ref]
	leaving := live != nil && live.GetUID() == pool.UID && slices.Contains(live.GetFinalizers(), metav1.FinalizerOrphanDependents)
	var left []string
	for _, n := range p.live.NodeClaims {
		if leaving && n.PoolUID == pool.UID || n.PoolUID == "" && n.Pool == pool.Ref.Name && !n.Deleting {
			left = append(left, strings.TrimSuffix(fmt.Sprintf("%s: %s (%s)", pool.Ref, n.Name, n.Node), " ()"))
		}
	}
	slices.Sort(left)
	return left
}

// recordApplied records what of the NodeSync lives, which after the apply is what
// was applied. An object that this pass has created and that vanishes before the
// next one would be known to nobody else.
func (p *pass) recordApplied(ctx context.Context) error {
	if !p.stages.CRDs.Ready {
		return nil
	}
	return p.saveApplied(ctx, nil)
}

// forgetGone takes what is verified gone out of the record.
func (p *pass) forgetGone(ctx context.Context, removals []v1alpha1.Removal) error {
	gone := map[types.UID]bool{}
	for _, r := range removals {
		if r.Phase == v1alpha1.RemovalGone {
			gone[r.UID] = true
		}
	}
	if len(gone) == 0 || p.memory.inventory == nil || !p.memory.inventory.Exists() {
		return nil
	}
	return p.saveApplied(ctx, gone)
}

// saveApplied writes the record where it changes. What another writer has made of
// it is read by the next pass.
func (p *pass) saveApplied(ctx context.Context, gone map[types.UID]bool) error {
	store, owned := p.memory.inventory, p.owned()
	relabelled, err := p.relabelled(ctx)
	if err != nil {
		return err
	}
	maps.Copy(owned, relabelled)
	if err := store.Save(ctx, p.Client, p.sync, inventory.Next(store.Record, owned, p.live.Objects, gone)); err != nil {
		p.memory.inventory = nil
		return err
	}
	return nil
}

// bears says whether an object has an ownership label, without a copy of all its labels.
func bears(object *unstructured.Unstructured, label string) bool {
	has, _, _ := unstructured.NestedString(object.Object, "metadata", "labels", v1alpha1.OwnerLabel)
	return has == label
}

// owned are the live objects that this NodeSync has applied. Of one that is
// recorded the label says whether it still is; to read managedFields costs more.
func (p *pass) owned() map[render.Ref]types.UID {
	owner := plan.OwnerOf(p.sync.Namespace, p.sync.Name)
	label, _ := owner.Label()
	recorded := p.memory.inventory.Record.Objects
	owned := make(map[render.Ref]types.UID, len(recorded))
	for ref, object := range p.live.Objects {
		if !bears(object, label) {
			continue
		}
		if uid := object.GetUID(); recorded[ref] == uid || owner.Owns(object) && plan.Applied(object) {
			owned[ref] = uid
		}
	}
	return owned
}
