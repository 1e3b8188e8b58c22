package whatif

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/capture"
)

// forced is the cluster in which pods that may not be evicted leave all the same, where Karpenter deletes them once the
// terminationGracePeriod of their node is over
// (https://karpenter.sh/docs/concepts/disruption/#terminationgraceperiod). They need a place as the others do.
func forced(c *capture.Capture, touched map[types.UID]bool) *capture.Capture {
	ends := map[string]bool{}
	for i := range c.NodeClaims {
		if claim := &c.NodeClaims[i]; touched[claim.UID] && claim.Spec.TerminationGracePeriod != nil {
			ends[claim.Status.NodeName] = claim.Status.NodeName != ""
		}
	}
	if len(ends) == 0 {
		return c
	}
	free := *c
	free.Pods = slices.Clone(c.Pods)
	var some []*corev1.Pod
	for i := range free.Pods {
		pod := &free.Pods[i]
		if !ends[pod.Spec.NodeName] {
			continue
		}
		some = append(some, pod)
		pod.Annotations = maps.Clone(pod.Annotations)
		delete(pod.Annotations, karpv1.DoNotDisruptAnnotationKey)
	}
	free.Budgets = slices.DeleteFunc(slices.Clone(c.Budgets), func(b policyv1.PodDisruptionBudget) bool {
		return slices.ContainsFunc(some, func(pod *corev1.Pod) bool { return guards(b, pod) })
	})
	return &free
}

// guards says whether a PodDisruptionBudget is of a pod.
func guards(budget policyv1.PodDisruptionBudget, pod *corev1.Pod) bool {
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	return err == nil && budget.Namespace == pod.Namespace && selector.Matches(labels.Set(pod.Labels))
}
