package bench

import (
	"context"
	"fmt"
	"time"
)

const (
	// manySyncs NodeSyncs follow one repository, each with a fleet of manyObjects.
	manySyncs   = 50
	manyObjects = 4
)

// many makes fifty NodeSyncs follow one repository, and changes a pool of each in one commit.
func (b *bench) many(ctx context.Context) error {
	if err := b.host.repo.Remove("clusters"); err != nil {
		return err
	}
	var fleets []*fleet
	for i := range manySyncs {
		f := newFleet(fmt.Sprintf("clusters/many-%02d", i), fmt.Sprintf("many-%02d-", i), manyObjects)
		fleets = append(fleets, f)
		if err := b.write(f.all()...); err != nil {
			return err
		}
		if err := b.writeSettings(f); err != nil {
			return err
		}
	}
	p, err := b.host.push(ctx, nobody)
	if err != nil {
		return err
	}
	for i, f := range fleets {
		if _, err := b.plumbline.follow(ctx, fmt.Sprintf("many-%02d", i), f.folder, nil); err != nil {
			return err
		}
	}
	if err := b.plumbline.settled(ctx, p.commit); err != nil {
		return err
	}
	if _, err := b.fetches.measure(ctx, "--depth=1"); err != nil {
		return err
	}
	row, err := b.repeat(func(i int) (Row, error) {
		var changed []definition
		for _, f := range fleets {
			changed = append(changed, f.changeOne(i))
		}
		return b.change(ctx, b.plumbline, changed...)
	})
	if err != nil {
		return err
	}
	row.Work = fmt.Sprintf("%d NodeSyncs on one repository, 1 changed in each", manySyncs)
	row.Limit, row.FetchLimit = 5*time.Second, 1
	b.table.add(row)
	if err := exact(row, Counts{Writes: manySyncs, Patches: 2 * manySyncs, Events: free, Lists: 0, Reads: free}); err != nil {
		return err
	}
	return b.plumbline.leave(ctx)
}
