package cluster

import (
	"context"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// Live is what lives of Karpenter's kinds, out of the watch cache; served says whether
// they are. Before their CRDs are served there is nothing, and nothing is asked.
func (v *View) Live(ctx context.Context) (live plan.Live, err error) {
	established, err := v.Established(ctx)
	if err != nil || !established.Ready {
		return plan.Live{Objects: map[render.Ref]*plan.Object{}}, err
	}
	live, err = v.Definitions.Live(ctx, v.Cached)
	live.Served = true
	return live, err
}
