package plan

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// TestVanishedPools: a pool that vanished counts as removed. The guard checks it as long as its nodes keep running:
// nodes that terminate with it cannot be held.
func TestVanishedPools(t *testing.T) {
	ref := render.Ref{Kind: render.NodePool, Name: "batch"}
	orphan := NodeClaim{Name: "batch-1", Pool: "batch"}
	ending := NodeClaim{Name: "batch-1", Pool: "batch", PoolUID: "old", Deleting: true}
	zero := int32(0)
	cases := map[string]struct {
		claims []NodeClaim
		taken  bool
		open   []v1alpha1.Removal
		policy Policy
		want   int
		held   bool
		none   bool
	}{
		"nothing is left":                 {},
		"its nodes end with it":           {claims: []NodeClaim{ending}, want: 1},
		"its nodes run on":                {claims: []NodeClaim{orphan}, want: 1, held: true},
		"its nodes are another pool's":    {claims: []NodeClaim{orphan}, taken: true},
		"its removal has begun":           {open: []v1alpha1.Removal{{Kind: "NodePool", Name: "batch", UID: "old", Phase: v1alpha1.RemovalDraining}}, none: true},
		"its removal is held":             {claims: []NodeClaim{orphan}, open: []v1alpha1.Removal{{Kind: "NodePool", Name: "batch", UID: "old", Phase: v1alpha1.RemovalHeld}}, want: 1, held: true},
		"the NodeSync goes, and takes it": {claims: []NodeClaim{orphan}, policy: Policy{Deleting: true}, want: 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.policy.Guard.MaxRemovedPools = &zero
			live := Live{Vanished: []Vanished{{Ref: ref, UID: "old"}}, NodeClaims: c.claims, Removals: c.open, Objects: map[render.Ref]*Object{}}
			if c.taken {
				another := &unstructured.Unstructured{}
				another.SetUID("new")
				live.Objects[ref] = NewObject(another)
			}
			m := &maker{live: live, policy: c.policy, claims: live.claims, inSet: map[render.Ref]bool{}}
			found := m.candidates("main@sha1:2")
			if c.none {
				if len(found) > 0 {
					t.Errorf("it is recorded twice: %+v", found)
				}
				return
			}
			if len(found) != 1 || found[0].UID != "old" || !found[0].Vanished || found[0].Nodes != c.want || found[0].Held != c.held {
				t.Errorf("candidates: %+v", found)
			}
		})
	}
}
