package observe

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	podutils "sigs.k8s.io/karpenter/pkg/utils/pod"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// mostCounted is of how many nodes the pods are counted for one plan, each by a request of its own.
const mostCounted = 100

// Loads reads, past the watch cache, which does not keep it, what Karpenter's consolidation looks at of nodes. What
// cannot be read, and pods of more than mostCounted nodes, are left out: such a node may be consolidated.
func Loads(reader client.Reader) plan.ReadLoads {
	return func(ctx context.Context, questions []plan.LoadQuestion) map[types.UID]plan.Load {
		found, counted := map[types.UID]plan.Load{}, 0
		for _, q := range questions {
			claims := &karpv1.NodeClaimList{}
			if err := reader.List(ctx, claims, client.MatchingLabels{karpv1.NodePoolLabelKey: q.Pool}); err != nil {
				continue
			}
			asked := map[types.UID]bool{}
			for _, claim := range q.Claims {
				asked[claim.UID] = true
			}
			for i := range claims.Items {
				claim := &claims.Items[i]
				if !asked[claim.UID] {
					continue
				}
				load := loadOf(claim)
				if q.Pods && counted < mostCounted {
					counted++
					load.Pods, load.Counted = countPods(ctx, reader, claim.Status.NodeName)
				}
				found[claim.UID] = load
			}
		}
		return found
	}
}

// loadOf is what a NodeClaim tells: its last pod event counts from when it was initialized, if it has none
// (sigs.k8s.io/karpenter pkg/utils/disruption/disruption.go, IsUnderConsolidateAfter, 1.14.1).
func loadOf(claim *karpv1.NodeClaim) plan.Load {
	load := plan.Load{Consolidatable: holds(claim, karpv1.ConditionTypeConsolidatable), PodEvent: claim.Status.LastPodEventTime.Time}
	if load.PodEvent.IsZero() {
		for _, c := range claim.Status.Conditions {
			if c.Type == karpv1.ConditionTypeInitialized {
				load.PodEvent = c.LastTransitionTime.Time
			}
		}
	}
	return load
}

// countPods counts the pods of a node that would have to be rescheduled; ok reports whether they could be read.
func countPods(ctx context.Context, reader client.Reader, node string) (n int, ok bool) {
	pods := &corev1.PodList{}
	if err := reader.List(ctx, pods, client.MatchingFields{"spec.nodeName": node}); err != nil {
		return 0, false
	}
	for i := range pods.Items {
		if podutils.IsReschedulable(&pods.Items[i]) {
			n++
		}
	}
	return n, true
}
