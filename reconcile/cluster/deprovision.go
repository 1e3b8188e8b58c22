package cluster

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	disruptionutils "sigs.k8s.io/karpenter/pkg/utils/disruption"
	podutils "sigs.k8s.io/karpenter/pkg/utils/pod"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// deprovision reads what Karpenter compares of a node to choose those that it terminates in a static NodePool; nil if
// its pods cannot be read. Karpenter counts all pods of the node, also completed ones and those of DaemonSets
// (resolvedDeprovisioningCandidates in sigs.k8s.io/karpenter pkg/controllers/static/deprovisioning/controller.go,
// 1.15.0).
func deprovision(ctx context.Context, reader client.Reader, claim *karpv1.NodeClaim, now time.Time) *plan.Deprovision {
	switch {
	case claim.Status.ProviderID == "":
		return &plan.Deprovision{Rank: plan.NotLaunched}
	case claim.Status.NodeName == "":
		return &plan.Deprovision{Rank: plan.WithoutPods}
	}
	list := &corev1.PodList{}
	if err := reader.List(ctx, list, client.MatchingFields{"spec.nodeName": claim.Status.NodeName}); err != nil {
		return nil
	}
	d := &plan.Deprovision{Rank: plan.WithoutPods}
	for i := range list.Items {
		pod := &list.Items[i]
		switch {
		case plan.Undisrupted(pod, now):
			d.Rank = plan.WithProtectedPods
		case !podutils.IsOwnedByDaemonSet(pod):
			d.Rank = max(d.Rank, plan.WithPods)
		}
	}
	if d.Rank >= plan.WithPods {
		pods := ptrs(list.Items)
		d.Now, d.Later = disruptionCost(ctx, claim, pods, now), disruptionCost(ctx, claim, pods, now.Add(time.Hour))
	}
	return d
}

// disruptionCost returns what Karpenter computes for a node with some pods at a time: the sum of the pods' costs, times
// the remaining share of its lifetime (ReschedulingCost and LifetimeRemaining in sigs.k8s.io/karpenter
// pkg/utils/disruption/disruption.go, 1.14.3 and 1.15.0). Which annotation of a pod counts depends on Karpenter's version
// and, since 1.15.0, on its feature gate PodDeletionCostManagement.
func disruptionCost(ctx context.Context, claim *karpv1.NodeClaim, pods []*corev1.Pod, at time.Time) plan.DisruptionCost {
	remaining := 1.0
	if lasts := ptr.Deref(claim.Spec.ExpireAfter.Duration, 0); lasts > 0 {
		remaining = min(max(1-float64(at.Sub(claim.CreationTimestamp.Time))/float64(lasts), 0), 1)
	}
	// Without the feature gate, the older annotation counts, too: which one does is decided here.
	ctx = options.ToContext(ctx, &options.Options{})
	var found plan.DisruptionCost
	const older, newer = corev1.PodDeletionCost, karpv1.DisruptionCostAnnotationKey
	for i, annotations := range [][]string{{older}, {newer}, {newer, older}} {
		cost := disruptionutils.ReschedulingCost(ctx, costed(pods, annotations)) * remaining
		if i == 0 {
			found = plan.DisruptionCost{Low: cost, High: cost}
		}
		found.Low, found.High = min(found.Low, cost), max(found.High, cost)
	}
	return found
}

// costed returns pods whose cost is that of the first of some annotations that each has.
func costed(pods []*corev1.Pod, annotations []string) []*corev1.Pod {
	found := slices.Clone(pods)
	for i, pod := range pods {
		if pod.Annotations[corev1.PodDeletionCost] == "" && pod.Annotations[karpv1.DisruptionCostAnnotationKey] == "" {
			continue
		}
		found[i] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
		found[i].Spec.Priority = pod.Spec.Priority
		for _, annotation := range annotations {
			if cost := pod.Annotations[annotation]; cost != "" {
				found[i].Annotations = map[string]string{corev1.PodDeletionCost: cost}
				break
			}
		}
	}
	return found
}

func ptrs(pods []corev1.Pod) []*corev1.Pod {
	found := make([]*corev1.Pod, 0, len(pods))
	for i := range pods {
		found = append(found, &pods[i])
	}
	return found
}
