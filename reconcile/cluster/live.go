package cluster

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// Live is what lives of Karpenter's kinds, out of the watch cache; served says whether
// they are. Before their CRDs are served there is nothing, and nothing is asked.
func (v *View) Live(ctx context.Context) (live plan.Live, err error) {
	established, err := v.Established(ctx)
	if err != nil || !established.Ready {
		return plan.Live{Objects: map[render.Ref]*unstructured.Unstructured{}}, err
	}
	live, err = observe.Live(ctx, v.Cached)
	live.Served = true
	return live, err
}
