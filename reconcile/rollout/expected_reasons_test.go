package rollout

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// TestTwoReasonsForOneNode: a node that two commits outdate stays outdated if a third one reverts the first.
func TestTwoReasonsForOneNode(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	before := &v1alpha1.Rollout{Revision: "main@sha1:1", SettlesAt: &metav1.Time{Time: now.Add(Settles)}}
	r := &Rollouts{
		Live:   plan.Live{NodeClaims: []plan.NodeClaim{{Name: "x", UID: "x", Pool: "a", Class: "default"}}},
		Before: before, Reported: before, Now: now, Memory: &Memory{whole: true},
	}
	of := func(reason string) Outdating {
		return Outdating{Claims: map[types.UID]bool{"x": true}, Expected: map[types.UID][]string{"x": {reason}}}
	}
	r.expect(t.Context(), of("SubnetDrift"), nil)
	r.expect(t.Context(), of("SecurityGroupDrift"), nil)
	found, settled := r.expect(t.Context(), Outdating{Reselected: map[string][]string{"default": {"SubnetDrift"}}}, nil)
	if len(found) != 1 || settled {
		t.Errorf("after the subnets were reverted: %v, settled %v", found, settled)
	}
	if diff := cmp.Diff(map[types.UID][]string{"x": {"SecurityGroupDrift"}}, r.Memory.expected); diff != "" {
		t.Error(diff)
	}
}
