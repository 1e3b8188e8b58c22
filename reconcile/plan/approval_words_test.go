package plan_test

import (
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// TestWhoseNodesAreApproved: nodes of other pools on an EC2NodeClass of the NodeSync are mentioned if the total exceeds
// its own nodes.
func TestWhoseNodesAreApproved(t *testing.T) {
	for want, of := range map[string]plan.Approvable{
		"drains 1 and replaces 2 of 5 nodes in 3 pools":                              {Drained: 1, Replaced: 2, Of: 5, Pools: 3},
		"replaces 5 of 5 nodes in 3 pools":                                           {Replaced: 5, Of: 5, Pools: 3},
		"replaces 6 of 5 nodes and others on the same EC2NodeClass in 3 pools":       {Replaced: 6, Of: 5, Pools: 3},
		"replaces up to 6 of 5 nodes and others on the same EC2NodeClass in 3 pools": {Replaced: 6, UpTo: true, Of: 5, Pools: 3},
	} {
		of.Entries = make([]v1alpha1.ApprovedEntry, 1)
		if got := of.Summary(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
