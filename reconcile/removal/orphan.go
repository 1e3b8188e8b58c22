package removal

import (
	"context"
	"fmt"

	"github.com/dustin/go-humanize/english"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/inventory"
	"github.com/plumbline-dev/plumbline/reconcile/teardown"
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
	cache := client.Reader(s.Client)
	if !s.Served {
		cache = s.Uncached
	}
	return teardown.World{Cache: cache, Live: s.Uncached, Writer: s.Client, StillLeader: s.StillLeader}
}
