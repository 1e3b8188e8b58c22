package source_test

import (
	"fmt"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

// TestAnIdentityCostsNoWalk shows that reading an identity, as for each input at every commit, allocates only its text.
func TestAnIdentityCostsNoWalk(t *testing.T) {
	all := files{}
	for i := range 100 {
		all[fmt.Sprintf("clusters/prod/nodes/pool-%02d.yaml", i)] = "a"
	}
	known := snapshotOf(t, all, source.Options{}).FS.(render.Identified)
	for name, most := range map[string]float64{"clusters/prod/nodes/pool-50.yaml": 2, "clusters/prod/nodes": 0, ".": 0} {
		ask := func() {
			if _, err := known.Identity(name); err != nil {
				t.Error(err)
			}
		}
		ask()
		if got := testing.AllocsPerRun(10, ask); got > most {
			t.Errorf("the identity of %s takes %v allocations, at most %v", name, got, most)
		}
	}
}
