package removal

import (
	"context"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// late is a cache with an old version of the NodeClaims.
type late struct {
	client.Reader
	claims []karpv1.NodeClaim
}

func (l late) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	claims, ok := list.(*karpv1.NodeClaimList)
	if !ok {
		return l.Reader.List(ctx, list, options...)
	}
	asked := (&client.ListOptions{}).ApplyOptions(options)
	for i := range l.claims {
		if asked.LabelSelector == nil || asked.LabelSelector.Matches(labels.Set(l.claims[i].Labels)) {
			claims.Items = append(claims.Items, l.claims[i])
		}
	}
	return nil
}

// TestDrivePacedBehindALateCache checks that NodeClaims terminated by another removal count, even if the cache does not
// show it yet.
func TestDrivePacedBehindALateCache(t *testing.T) {
	restrained := map[string]any{"limits": map[string]any{"cpu": "0"}}
	s := pacedPool(t, pool("batch", "batch-uid", restrained), pool("spot", "spot-uid", restrained))
	s.launch("a", "batch", "batch-uid")
	s.launch("b", "spot", "spot-uid")
	s.find(render.NodePool, "batch", "batch-uid")
	s.find(render.NodePool, "spot", "spot-uid")
	s.holds = map[types.UID]Hold{"batch-uid": {Reason: "Held", Message: "the last pool"}}
	s.pass()
	cache := late{s.client, s.claims()}
	s.expect("the younger one goes first", "batch Held", "spot Draining", "delete NodeClaim/b")
	s.holds, s.cache = nil, cache
	for range 4 {
		if done := s.pass(); slices.Contains(done, "delete NodeClaim/a") {
			t.Fatalf("two leave where one may: %v", done)
		}
	}
	if r := s.sync.Status.Removals[0]; r.Phase != v1alpha1.RemovalPacing || r.Reason != ReasonTurnPending {
		t.Errorf("the older one is %s: %s", r.Phase, r.Reason)
	}
	s.cache = s.client
	s.karpenter("terminated")
	s.expect("its turn", "batch Draining", "spot Finalizing", "delete NodeClaim/a", "delete the object")
}
