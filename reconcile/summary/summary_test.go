package summary_test

import (
	"testing"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
)

// TestTheStateIsOfReadyAndRolledOut: definitions that are applied are not in sync while nodes do not match them.
func TestTheStateIsOfReadyAndRolledOut(t *testing.T) {
	stopped := metav1.Now()
	held := []v1alpha1.PoolRollout{{Pool: "a", Reason: v1alpha1.BrakeHeldByCondition, BrakedAt: &stopped}}
	failed := []v1alpha1.PoolRollout{{Pool: "a", Reason: v1alpha1.BrakeFailedLaunches, BrakedAt: &stopped}}
	for name, c := range map[string]struct {
		ready, rolledOut string // the reasons; empty is True
		pools            []v1alpha1.PoolRollout
		want             summary.State
		headline, says   string
	}{
		"each node matches":         {want: summary.InSync, headline: "in sync", says: "applied"},
		"it rolls out":              {rolledOut: v1alpha1.ReasonRollingOut, want: summary.RollingOut, headline: "rolling out: 0 of 2 nodes replaced", says: "rolling out: of nodes"},
		"it is stopped":             {rolledOut: v1alpha1.ReasonRolloutBraked, pools: failed, want: summary.RolloutStopped, headline: "rollout stopped: 0 of 2 nodes replaced", says: "of nodes"},
		"it is held":                {rolledOut: v1alpha1.ReasonRolloutBraked, pools: held, want: summary.RolloutHeld, headline: "rollout held: 0 of 2 nodes replaced", says: "of nodes"},
		"it takes too long":         {rolledOut: v1alpha1.ReasonRolloutTimedOut, want: summary.RolloutFailing, headline: "rollout failing: 0 of 2 nodes replaced", says: "of nodes"},
		"it fails, and is reported": {rolledOut: v1alpha1.ReasonRolloutFailing, want: summary.RolloutFailing, headline: "rollout failing: 0 of 2 nodes replaced", says: "of nodes"},
		"something else is waited":  {ready: v1alpha1.ReasonWaiting, rolledOut: v1alpha1.ReasonRollingOut, want: summary.Waiting, headline: "waiting", says: "applied"},
		"and it is stopped":         {ready: v1alpha1.ReasonRemoving, rolledOut: v1alpha1.ReasonRolloutBraked, pools: failed, want: summary.RolloutStopped, headline: "rollout stopped: 0 of 2 nodes replaced", says: "of nodes"},
	} {
		sync := &v1alpha1.NodeSync{}
		sync.Status.LastAttemptedRevision, sync.Status.LastAppliedRevision = "a", "a"
		conditions.MarkTrue(sync, meta.ReadyCondition, v1alpha1.ReasonSucceeded, "applied")
		if c.ready != "" {
			conditions.MarkUnknown(sync, meta.ReadyCondition, c.ready, "applied")
		}
		conditions.MarkTrue(sync, v1alpha1.RolledOutCondition, v1alpha1.ReasonSucceeded, "of nodes")
		if c.rolledOut != "" {
			conditions.MarkFalse(sync, v1alpha1.RolledOutCondition, c.rolledOut, "of nodes")
			sync.Status.Rollout, sync.Status.PoolRollouts = &v1alpha1.Rollout{Nodes: 2, Outdated: 2}, c.pools
		}
		got := summary.Of(sync)
		if got.State != string(c.want) || got.Headline() != c.headline || summary.Message(sync) != c.says {
			t.Errorf("%s: %q, %q, %q", name, got.State, got.Headline(), summary.Message(sync))
		}
	}
}
