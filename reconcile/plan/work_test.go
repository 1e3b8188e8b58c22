package plan_test

import (
	"runtime"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// TestWorkForEachNodeClaim counts the allocations of a plan per additional NodeClaim, in a commit that changes
// everything that NodeClaims are compared with: the number per NodeClaim is constant, and each pair of requirements and
// labels is compared once.
func TestWorkForEachNodeClaim(t *testing.T) {
	const pools, few = 10, 2000
	var allocated, bytes [3]float64
	for i := range allocated {
		f := newFleet(t, pools, few<<i)
		read := &cluster.Definitions{}
		last := f.plan(t, read, plan.Memo{}).Memo // a first plan fills the caches
		var p *plan.Plan
		allocated[i], bytes[i] = allocates(func() { p = f.plan(t, read, last) })
		if p.Nodes != few<<i || p.Changes[fleetClassChanges].Nodes == 0 {
			t.Fatalf("%d nodes: %+v", p.Nodes, p.Changes[fleetClassChanges])
		}
	}
	for i := range 2 {
		more := float64(int(few) << i)
		each, size := (allocated[i+1]-allocated[i])/more, (bytes[i+1]-bytes[i])/more
		t.Logf("from %d to %d: %.2f allocations and %.0f bytes for each NodeClaim", few<<i, few<<(i+1), each, size)
		if each > 1 || size > 2000 {
			t.Errorf("from %d to %d NodeClaims a plan makes %.2f allocations and %.0f bytes for each, want at most 1 and 2000", few<<i, few<<(i+1), each, size)
		}
	}
}

// allocates returns the allocations of a function, on one processor.
func allocates(do func()) (times, bytes float64) {
	var before, after runtime.MemStats
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs - before.Mallocs), float64(after.TotalAlloc - before.TotalAlloc)
}
