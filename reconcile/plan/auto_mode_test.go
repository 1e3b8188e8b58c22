package plan_test

import (
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestPoolOwners: in a cluster with EKS Auto Mode, each pool has an owner.
func TestPoolOwners(t *testing.T) {
	c := newCluster(t)
	c.have(t, owner, class("default"), pool("general", "default"))
	c.have(t, other, pool("theirs", "default"))
	c.byHand(t, "kubectl", pool("by-hand", "default"))
	live := c.live
	live.Objects = plan.NewObjects(c.Objects())
	set := c.set(t, pool("new", "default"), class("default"))
	crds := []string{"nodeclaims.karpenter.sh", "nodepools.karpenter.sh"}
	if got := plan.PoolOwners(live, owner, set, nil); got != "" {
		t.Errorf("without Auto Mode: %q", got)
	}
	live.AutoMode = []string{"general-purpose", "system"}
	for name, c := range map[string]struct {
		live   plan.Live
		set    *render.Set
		served []string
		want   string
	}{
		"all": {live, set, crds, "EKS Auto Mode: EKS keeps crd nodeclaims.karpenter.sh and crd nodepools.karpenter.sh, and AWS manages NodePool/general-purpose, NodePool/system, which plumbline does not change; " +
			"NodePool/general, NodePool/new of this NodeSync; NodePool/theirs of NodeSync plumbline-system.other; NodePool/by-hand of no NodeSync"},
		"nothing rendered": {plan.Live{AutoMode: []string{"system"}}, nil, nil, "EKS Auto Mode: AWS manages NodePool/system, which plumbline does not change"},
		"no pools of AWS":  {plan.Live{}, set, crds[:1], "EKS Auto Mode: EKS keeps crd nodeclaims.karpenter.sh, which plumbline does not change; NodePool/new of this NodeSync"},
	} {
		if got := plan.PoolOwners(c.live, owner, c.set, c.served); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
