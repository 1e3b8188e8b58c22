package reconcile

import (
	"context"

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
		p.waitFor("objects", "they are let go: our label is taken off")
		p.wakeNow()
		return nil
	}
	p.finish()
	return nil
}

// world is what a teardown reads and writes.
func (p *pass) world(aws Cloud) teardown.World {
	return teardown.World{Cache: p.Client, Live: p.Uncached, Writer: p.Client, EC2: aws, StillLeader: p.Settings.StillLeader}
}
