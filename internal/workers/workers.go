// Package workers does something for each of many, some at a time, by goroutines that stay: one
// for each would grow its stack from nothing, which took 5 % of the processor time of a large commit.
package workers

import (
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// Each calls do with 0 to n-1, so many at a time at most. After an error nothing more begins, and
// the first one is returned once all that had begun is over.
func Each(atATime, n int, do func(i int) error) error {
	var group errgroup.Group
	var next atomic.Int64
	for range min(max(1, atATime), n) {
		group.Go(func() error {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				if err := do(int(i)); err != nil {
					next.Store(int64(n))
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}
