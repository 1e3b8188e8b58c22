package v1alpha1_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// TestWhatADrainComesTo shows that a NodeSync is drained only if its spec says so and none of its NodePools has a node
// left. An EC2NodeClass that is being deleted does not count.
func TestWhatADrainComesTo(t *testing.T) {
	now := metav1.Now()
	pool := func(reason string) v1alpha1.Removal { return v1alpha1.Removal{Kind: "NodePool", Reason: reason} }
	class := v1alpha1.Removal{Kind: "EC2NodeClass", Phase: v1alpha1.RemovalFinalizing}
	drain := v1alpha1.NodeSyncSpec{Drain: true}
	for name, c := range map[string]struct {
		spec                   v1alpha1.NodeSyncSpec
		deleted                bool
		removals               []v1alpha1.Removal
		drains, rests, drained bool
	}{
		"not asked for":            {removals: []v1alpha1.Removal{pool("Drained")}},
		"no pool":                  {spec: drain, drains: true, rests: true, drained: true},
		"one of two":               {spec: drain, removals: []v1alpha1.Removal{pool("Drained"), pool("NodeClaimsLeaving")}, drains: true, rests: true},
		"both, and a class leaves": {spec: drain, removals: []v1alpha1.Removal{class, pool("Drained"), pool("Drained")}, drains: true, rests: true, drained: true},
		"suspended":                {spec: v1alpha1.NodeSyncSpec{Suspend: true}, rests: true},
		"deleted, and left":        {spec: v1alpha1.NodeSyncSpec{Drain: true, OnDelete: v1alpha1.OnDeleteOrphan}, deleted: true},
		"deleted with its nodes":   {spec: v1alpha1.NodeSyncSpec{OnDelete: v1alpha1.OnDeleteDrain}, deleted: true, drains: true},
	} {
		t.Run(name, func(t *testing.T) {
			n := &v1alpha1.NodeSync{Spec: c.spec}
			n.Status.Removals = c.removals
			if c.deleted {
				n.DeletionTimestamp = &now
			}
			if n.DrainsNodes() != c.drains || n.IsPaused() != c.rests || n.Drained() != c.drained {
				t.Errorf("drains %t, rests %t, drained %t", n.DrainsNodes(), n.IsPaused(), n.Drained())
			}
		})
	}
}
