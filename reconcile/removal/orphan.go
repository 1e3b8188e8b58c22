package removal

import (
	"context"
	"fmt"
	"slices"

	"github.com/dustin/go-humanize/english"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/inventory"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/teardown"
	"github.com/plumbline-dev/plumbline/render"
)

// Orphan leaves every object and its nodes, and takes our label off.
func (s *Step) Orphan(ctx context.Context) (Result, error) {
	goes, err := s.namespaceGoes(ctx)
	if err != nil {
		return Result{}, err
	}
	world := s.world()
	world.RecordsGo = goes
	done, err := teardown.LetGo(ctx, world, s.Sync, s.owner())
	if err != nil {
		return Result{}, err
	}
	if !done {
		s.Wait("objects", "they are released: the label of plumbline is removed")
		s.wakeNow()
		return Result{}, nil
	}
	if goes {
		s.Memory.applied = &inventory.Store{} // it is deleted with the namespace
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

// orphanEntries leaves the entries to themselves of which people have approved that. What was applied is
// recorded without them first: of what stands there another client would have taken our label off. Their removals
// end when the cache has them without the label.
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
	done, err := teardown.Orphan(ctx, s.world(), s.Sync, s.owner(), uids)
	if err == nil && !done {
		s.wakeNow()
	}
	return err
}

// leavesAsIs says whether an entry is recorded as one that leaves, and people have approved that it is left to
// itself.
func leavesAsIs(c *plan.Candidate) bool { return c.Orphan && c.Recorded && !c.Held }

// leftAsIs says that of the entry of a removal.
func (s *Step) leftAsIs(uid types.UID) bool {
	return slices.ContainsFunc(s.Plan.Removals, func(c plan.Candidate) bool { return c.UID == uid && leavesAsIs(&c) })
}

// leftUnmanaged says that a removal has ended by leaving its object to itself, and of how many nodes; empty
// where it has not.
func (s *Step) leftUnmanaged(r v1alpha1.Removal) string {
	object := s.Live.Objects[refOf(r)]
	if object == nil || object.GetUID() != r.UID || !object.IsOrphaned(s.owner()) {
		return ""
	}
	nodes := 0
	for i := range s.Live.NodeClaims {
		if r.Kind == render.NodePool && s.Live.NodeClaims[i].Pool == r.Name {
			nodes++
		}
	}
	return fmt.Sprintf("%s is left to itself with %s, as was approved: no NodeSync manages it", refOf(r), english.Plural(nodes, "node", ""))
}

// Orphaned are the NodePools with nodes that were left to themselves, and that nobody has adopted since.
func (s *Step) Orphaned() []plan.OrphanedPool { return s.Live.Orphaned(s.owner()) }

// leftNodes says what becomes of the nodes. What is terminating cannot be taken
// back, and is not waited for.
func (s *Step) leftNodes() string {
	const left = "its objects and nodes are left as they are"
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
	return fmt.Sprintf("%s; Karpenter ends %s that %s terminating already", left, english.Plural(ending, "NodeClaim", ""), english.PluralWord(ending, "was", "were"))
}

// world is what a teardown reads and writes. What is not served has no watch, and
// a cache would wait for one.
func (s *Step) world() teardown.World {
	cache := client.Reader(s.Nodes.Client)
	if !s.Served {
		cache = s.Nodes.Uncached
	}
	return teardown.World{
		Cache: cache, Live: s.Nodes.Uncached, Writer: s.Nodes.Client,
		Home: teardown.Home{Reader: s.Uncached, Writer: s.Client}, StillLeader: s.StillLeader,
	}
}
