package rollout

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// holdDisruption keeps Karpenter from replacing or consolidating nodes of any NodePool of the NodeSync, whether a
// rollout concerns it or not. A failed write is reported, and nothing else waits for it.
func (s *BrakeStep) holdDisruption(ctx context.Context) {
	if !s.Sync.HoldsDisruption() {
		return
	}
	held := 0
	for _, pool := range s.candidates() {
		live, object, err := s.budgetsOf(pool.GetName())
		if live == nil || s.removing(pool.GetName()) {
			continue
		}
		wrote := false
		if err == nil {
			wrote, err = s.hold(ctx, live, object)
		}
		if err != nil {
			s.Warn(v1alpha1.ReasonBrakeFailed, err.Error())
			s.WakeBy(s.Now.Add(s.Sync.GetRetryInterval()))
		}
		if wrote {
			held++
		}
	}
	if held > 0 {
		s.Wrote(corev1.EventTypeNormal, v1alpha1.ReasonBraking, "NodePools have a disruption budget of 0 nodes until the identity conflict is over")
	}
}

// hold sets or renews the DisruptionHold of a NodePool, and reports whether it has written it.
func (s *BrakeStep) hold(ctx context.Context, live *plan.Object, object render.Object) (wrote bool, err error) {
	if until := plan.HoldOf(live.Unstructured, object, s.Now); s.Now.Before(plan.RenewHold(until)) {
		s.WakeBy(plan.RenewHold(until))
		return false, nil
	}
	if err := s.edited(live.Unstructured, `set budgets: [{nodes: "0"}] to hold voluntary disruption`); err != nil {
		return false, err
	}
	err = s.writeBudgets(ctx, live, plan.Held(object, plan.DisruptionHold{From: s.Now.Truncate(time.Minute)}), "hold voluntary disruption")
	return err == nil, err
}
