package workers_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/plumbline-dev/plumbline/internal/workers"
)

// TestEach: do is called once for each item, with a limited number of calls at a time.
func TestEach(t *testing.T) {
	for _, atATime := range []int{-1, 0, 1, 3, 100} {
		for _, n := range []int{0, 1, 2, 50} {
			done := make([]atomic.Int32, n)
			var now, most atomic.Int32
			err := workers.Each(atATime, n, func(i int) error {
				if at := now.Add(1); at > most.Load() {
					most.Store(at)
				}
				done[i].Add(1)
				now.Add(-1)
				return nil
			})
			if err != nil || int(most.Load()) > max(1, atATime) {
				t.Errorf("%d at a time, %d: %d at once, %v", atATime, n, most.Load(), err)
			}
			for i := range done {
				if times := done[i].Load(); times != 1 {
					t.Errorf("%d at a time: %d of %d was done %d times", atATime, i, n, times)
				}
			}
		}
	}
}

// TestEachEndsWithAnError: running calls return, and no more start.
func TestEachEndsWithAnError(t *testing.T) {
	failure := errors.New("broken")
	var begun atomic.Int32
	err := workers.Each(1, 10, func(i int) error {
		begun.Add(1)
		if i == 3 {
			return failure
		}
		return nil
	})
	if !errors.Is(err, failure) || begun.Load() != 4 {
		t.Errorf("%v after %d had begun", err, begun.Load())
	}
}
