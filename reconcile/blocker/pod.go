package blocker

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	podutil "sigs.k8s.io/karpenter/pkg/utils/pod"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// Drains says whether Karpenter evicts a pod and waits for it. DaemonSets' pods
// go last and come back; naming them would hide what they wait for.
func Drains(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	owner := metav1.GetControllerOf(pod)
	return !mirror && !ended && (owner == nil || owner.Kind != "DaemonSet") && !podutil.ToleratesDisruptedNoScheduleTaint(pod)
}

// Undisrupted says whether the pod's annotation keeps it, at that time.
func Undisrupted(pod *corev1.Pod, now time.Time) bool { return undisrupted(pod, now) != "" }

// why says what keeps a pod on its node.
func why(pod *corev1.Pod, e Evidence) Cause {
	name := "pod " + pod.Namespace + "/" + pod.Name
	c := Cause{Words: name, Short: name, Kind: v1alpha1.CausePod, Namespace: pod.Namespace, Name: pod.Name, Passing: true}
	if pod.DeletionTimestamp != nil {
		if len(pod.Finalizers) > 0 {
			return c.because(v1alpha1.CauseFinalizer, ", which waits for its finalizer "+strings.Join(pod.Finalizers, ", "))
		}
		c = c.because(v1alpha1.CausePod, ", which is ending")
		c.Passing = true
		return c
	}
	for _, b := range e.Budgets {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err == nil && b.Namespace == pod.Namespace && b.Status.DisruptionsAllowed == 0 && selector.Matches(labels.Set(pod.Labels)) {
			budget := "PodDisruptionBudget " + b.Namespace + "/" + b.Name
			c = c.because(v1alpha1.CauseBudget, ", of which "+budget+" allows no disruption"+numbers(b.Status))
			c.Short = budget + ", which allows no disruption" + numbers(b.Status) + " of " + name
			return c
		}
	}
	if words := undisrupted(pod, e.Now); words != "" {
		return c.because(v1alpha1.CauseDoNotDisrupt, words)
	}
	return c
}

// because adds to a pod what keeps it.
func (c Cause) because(kind v1alpha1.BreakGlassCause, words string) Cause {
	c.Kind, c.Words, c.Passing = kind, c.Words+words, false
	c.Short = c.Words
	return c
}

// bare says that nothing is known to keep the pod.
func (c Cause) bare() bool { return c.Words == "pod "+c.Namespace+"/"+c.Name }

// numbers are those by which a budget allows nothing; none where its controller has not counted.
func numbers(s policyv1.PodDisruptionBudgetStatus) string {
	if s.ExpectedPods == 0 {
		return ""
	}
	return fmt.Sprintf(" (healthy: %d of %d, %d needed)", s.CurrentHealthy, s.ExpectedPods, s.DesiredHealthy)
}

// undisrupted says that the pod's annotation keeps it: "true", or for some time from its start on
// (IsDoNotDisruptActive in sigs.k8s.io/karpenter pkg/utils/pod/scheduling.go, since 1.14). One
// whose time is over keeps nothing.
func undisrupted(pod *corev1.Pod, now time.Time) string {
	value := pod.Annotations[karpv1.DoNotDisruptAnnotationKey]
	if value == "true" {
		return ", annotated " + karpv1.DoNotDisruptAnnotationKey
	}
	lasts, err := time.ParseDuration(value)
	if err != nil || lasts <= 0 || pod.Status.StartTime == nil {
		return ""
	}
	until := pod.Status.StartTime.Add(lasts)
	if now.Before(until) {
		return ", annotated " + karpv1.DoNotDisruptAnnotationKey + " until " + until.UTC().Format(time.RFC3339)
	}
	return ""
}
