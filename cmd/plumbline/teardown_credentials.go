package main

import (
	"context"
	"fmt"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/blocker"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/redact"
)

// seeCredentials finds out, from the log of a controller that runs, whether AWS refuses its credentials: it would drain nodes then,
// and end none. One that does not run tells so as it starts.
func (t *teardown) seeCredentials(ctx context.Context, sync *v1alpha1.NodeSync, leaves *teardownPlan) error {
	k := sync.Status.Karpenter
	if t.stopped != nil || !t.needsController(sync, leaves) {
		return nil
	}
	logs, err := upgrade.PodLogs(t.c.config)
	if err != nil {
		return explain(err, "read the log of Karpenter's controller")
	}
	log := upgrade.ControllerLog(ctx, t.c, logs, k.Namespace)
	refused := blocker.RefusedCredentials(log, t.v.now().Add(-blocker.RefusedWithin))
	if refused == nil {
		return nil
	}
	is := fmt.Sprintf("Karpenter's controller runs, and AWS refuses its credentials (by its log at %s: %s): it drains nodes, and ends no instance",
		refused.Time.UTC().Format(time.TimeOnly), oneLine(redact.Visible(refused.Words)))
	mend := fmt.Sprintf("have its ServiceAccount get its role again, and then restart it (kubectl rollout restart deployment karpenter -n %s)", k.Namespace)
	switch {
	case t.terminate:
		leaves.Controller = is + ": --terminate ends what it leaves"
		return nil
	case sync.DeletionTimestamp != nil, sync.Spec.Drain:
		leaves.Controller = is + ": " + mend // what is recorded goes on by itself
		return nil
	}
	return fmt.Errorf("%s: %s; nothing was changed. Where it cannot have a role any more, --terminate ends what it leaves with your AWS rights", is, mend)
}

// needsController says whether Karpenter's controller has something to end.
func (t *teardown) needsController(sync *v1alpha1.NodeSync, leaves *teardownPlan) bool {
	ends := !t.downTo.keeps() && len(leaves.Objects) > 0
	return sync.Status.Karpenter != nil && (ends || leaves.NodeClaims > 0)
}
