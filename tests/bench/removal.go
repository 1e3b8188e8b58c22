package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// leaving returns how many NodePools are removed from a fleet at once: 90 of 1,000 objects.
func leaving(objects int) int { return max(1, objects*90/1000) }

// removal removes NodePools that have no nodes, until they are Gone.
func (b *bench) removal(ctx context.Context) error {
	b.fleet = newFleet(folder, "", b.options.Objects)
	if _, err := b.meet(ctx, b.fleet, map[string]string{"guard.maxRemovedPools": fmt.Sprint(b.options.Objects)}); err != nil {
		return err
	}
	n := leaving(b.options.Objects)
	row, err := b.profiled(ctx, "removal", func(ctx context.Context) (Row, error) { return b.remove(ctx, b.plumbline, b.fleet, n) })
	if err != nil {
		return err
	}
	row.Wall = row.Told // until the daemon reports that they are Gone
	row.Work = fmt.Sprintf("%d objects, %d pools without nodes removed", b.options.Objects, n)
	row.CPULimit = time.Duration(n) * 2 * time.Second / 180 // 2 s for 180 of 2,000
	b.table.add(row)
	// For each pool, growth is stopped, and the pool deleted. One LIST returns the NodeClaims of a hundred pools, and
	// one returns all pools if many of them are removed. A reconcile records one event for each of its actions, for
	// however many pools. The simulated Karpenter writes the status of a pool whose growth was stopped while the pools
	// are deleted.
	want := Counts{Writes: 2 * n, Refused: n, Patches: wakes(row.Told), Events: 2 * wakes(row.Told), Lists: (2 + n/100) * wakes(row.Told), Reads: free}
	return errors.Join(exact(row, want), b.areLeft(ctx, len(b.fleet.limits)-n), b.plumbline.leave(ctx))
}

// areLeft checks how many of a fleet's pools exist.
func (b *bench) areLeft(ctx context.Context, want int) error {
	all, err := b.objects.Resource(nodePools).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the NodePools: %w", err)
	}
	got := 0
	for i := range all.Items {
		if strings.HasPrefix(all.Items[i].GetName(), "pair-") {
			got++
		}
	}
	if got != want {
		return fmt.Errorf("%d NodePools are left; want %d", got, want)
	}
	return nil
}

// remove pushes a commit without the last n pools of a fleet.
func (b *bench) remove(ctx context.Context, by follower, f *fleet, n int) (Row, error) {
	pools := f.pools()
	for _, pool := range pools[len(pools)-n:] {
		if err := b.host.repo.Remove(pool.file); err != nil {
			return Row{}, err
		}
	}
	return b.change(ctx, by)
}
