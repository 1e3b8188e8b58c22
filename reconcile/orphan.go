package reconcile

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/inventory"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/teardown"
)

// orphan leaves every object and its nodes, takes our label off and lets the
// NodeSync go.
func (p *pass) orphan(ctx context.Context) error {
	done, err := teardown.LetGo(ctx, p.world(nil), p.sync, plan.OwnerOf(p.sync.Namespace, p.sync.Name))
	if err != nil {
		return err
	}
	if !done {
		p.Wait("objects", "they are let go: our label is taken off")
		p.wakeNow()
		return nil
	}
	if p.namespaceGoes {
		p.memory.inventory = &inventory.Store{} // it is deleted with the namespace
	}
	if err := p.recallApplied(ctx); err != nil {
		return err
	}
	how := p.leftNodes()
	if err := p.memory.inventory.Drop(ctx, p.Client); err != nil {
		p.memory.inventory = nil
		return err
	}
	p.finish(how)
	return nil
}

// leftNodes says what becomes of the nodes. What is terminating cannot be taken
// back, and is not waited for.
func (p *pass) leftNodes() string {
	const left = "its objects and nodes are left as they are"
	pools := map[types.UID]bool{}
	for _, uid := range p.owned() {
		pools[uid] = true
	}
	for _, uid := range p.memory.inventory.Record.Objects {
		pools[uid] = true
	}
	for _, r := range p.before.Status.Removals {
		pools[r.UID] = true
	}
	ending := 0
	for _, n := range p.live.NodeClaims {
		if n.Deleting && pools[n.PoolUID] {
			ending++
		}
	}
	if ending == 0 {
		return left
	}
	return fmt.Sprintf("%s; %d NodeClaims that were terminating already are ended by Karpenter", left, ending)
}

// world is what a teardown reads and writes. What is not served has no watch, and
// a cache would wait for one.
func (p *pass) world(aws Cloud) teardown.World {
	cache := client.Reader(p.Client)
	if !p.served {
		cache = p.Uncached
	}
	return teardown.World{
		Cache: cache, Live: p.Uncached, Writer: p.Client, EC2: aws, StillLeader: p.Settings.StillLeader,
		RecordsGo: p.namespaceGoes,
	}
}
