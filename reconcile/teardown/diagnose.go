package teardown

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	podutil "sigs.k8s.io/karpenter/pkg/utils/pod"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// Evidence is what was found out about the nodes of a removal that stands still.
type Evidence struct {
	// Nodes are a few of those that do not go, the oldest first.
	Nodes []NodeEvidence
	// Budgets are the PodDisruptionBudgets of the namespaces of their pods.
	Budgets []policyv1.PodDisruptionBudget
}

// NodeEvidence is what hangs on one node that does not go.
type NodeEvidence struct {
	Claim   Claim
	Pods    []corev1.Pod
	Volumes []storagev1.VolumeAttachment
	// Events are those of the Node and the NodeClaim.
	Events []corev1.Event
}

// Diagnose says what keeps a removal, by name, and where it stands still, with
// which command a person may break the glass. It is never executed. The same
// evidence makes the same sentence.
func Diagnose(r v1alpha1.Removal, o Observation, e Evidence) string {
	if r.Reason == ReasonNodeClaimsLeaving {
		return nodesLeft(r, o, e)
	}
	return r.Message
}

func nodesLeft(r v1alpha1.Removal, o Observation, e Evidence) string {
	var found []string
	if !o.Controller.Open {
		found = append(found, "nothing drains without Karpenter's controller: "+o.Controller.Message)
	}
	glass := ""
	for _, n := range e.Nodes {
		what, breakable := n.waitsFor(e.Budgets)
		found = append(found, fmt.Sprintf("node %s (NodeClaim/%s) waits for %s", n.name(), n.Claim.Name, what))
		if breakable && glass == "" {
			glass = "; to end it without them, at your own risk: " + BreakGlass(n.Claim.Name)
		}
	}
	switch {
	case len(found) == 0:
		return r.Message
	case r.Stalled == nil:
		return strings.Join(found, "; ") // it may still go by itself
	}
	return strings.Join(found, "; ") + glass
}

// BreakGlass is the command that has Karpenter end a node past its pods and
// their budgets (sigs.k8s.io/karpenter pkg/controllers/nodeclaim/lifecycle).
func BreakGlass(claim string) string {
	return fmt.Sprintf("kubectl annotate nodeclaim %s --overwrite %s=$(date -u +%%Y-%%m-%%dT%%H:%%M:%%SZ)", claim, karpv1.NodeClaimTerminationTimestampAnnotationKey)
}

func (n NodeEvidence) name() string {
	if n.Claim.Node == "" {
		return "not registered yet"
	}
	return n.Claim.Node
}

// waitsFor names what keeps a node, and whether ending the node without it is a
// way out.
func (n NodeEvidence) waitsFor(budgets []policyv1.PodDisruptionBudget) (what string, breakable bool) {
	if denied := n.denied(); denied != "" {
		return "AWS: " + denied, false
	}
	var pods []string
	for i := range n.Pods {
		if pod := &n.Pods[i]; drains(pod) {
			pods = append(pods, "pod "+pod.Namespace+"/"+pod.Name+why(pod, budgets))
		}
	}
	if len(pods) > 0 {
		slices.Sort(pods)
		return names(pods), true
	}
	var volumes []string
	for _, v := range n.Volumes {
		volume := v.Name
		if v.Spec.Source.PersistentVolumeName != nil {
			volume = *v.Spec.Source.PersistentVolumeName
		}
		volumes = append(volumes, "volume "+volume+" to be detached by "+v.Spec.Attacher)
	}
	if len(volumes) > 0 {
		slices.Sort(volumes)
		return names(volumes), true
	}
	if !n.Claim.Drained.IsZero() {
		return fmt.Sprintf("EC2 to take the termination of %s: it is drained, so EC2 refuses it (OperationNotPermitted for termination protection, UnauthorizedOperation without ec2:TerminateInstances); the log of Karpenter's controller has its message",
			instanceID(n.Claim.ProviderID)), false
	}
	if len(n.Claim.Waits) > 0 {
		return n.Claim.Waits[0], false
	}
	return "Karpenter to end it", false
}

// drains says whether Karpenter evicts a pod and waits for it. DaemonSets' pods
// go last and come back; naming them would hide what they wait for.
func drains(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	owner := metav1.GetControllerOf(pod)
	return !mirror && !ended && (owner == nil || owner.Kind != "DaemonSet") && !podutil.ToleratesDisruptedNoScheduleTaint(pod)
}

// why says what keeps a pod on its node.
func why(pod *corev1.Pod, budgets []policyv1.PodDisruptionBudget) string {
	if pod.DeletionTimestamp != nil {
		if len(pod.Finalizers) > 0 {
			return ", which waits for its finalizer " + strings.Join(pod.Finalizers, ", ")
		}
		return ", which is ending"
	}
	for _, b := range budgets {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err == nil && b.Namespace == pod.Namespace && b.Status.DisruptionsAllowed == 0 && selector.Matches(labels.Set(pod.Labels)) {
			return ", of which PodDisruptionBudget " + b.Namespace + "/" + b.Name + " allows no disruption" + numbers(b.Status)
		}
	}
	return undisrupted(pod)
}

// numbers are those by which a budget allows nothing; none where its controller has not counted.
func numbers(s policyv1.PodDisruptionBudgetStatus) string {
	if s.ExpectedPods == 0 {
		return ""
	}
	return fmt.Sprintf(" (healthy: %d of %d, %d needed)", s.CurrentHealthy, s.ExpectedPods, s.DesiredHealthy)
}

// undisrupted says that the pod's annotation keeps it: "true", or for some time from its start on
// (IsDoNotDisruptActive in sigs.k8s.io/karpenter pkg/utils/pod/scheduling.go, since 1.14).
func undisrupted(pod *corev1.Pod) string {
	value := pod.Annotations[karpv1.DoNotDisruptAnnotationKey]
	if value == "true" {
		return ", annotated " + karpv1.DoNotDisruptAnnotationKey
	}
	lasts, err := time.ParseDuration(value)
	if err != nil || lasts <= 0 || pod.Status.StartTime == nil {
		return ""
	}
	return ", annotated " + karpv1.DoNotDisruptAnnotationKey + " until " + pod.Status.StartTime.Add(lasts).UTC().Format(time.RFC3339)
}

// denied finds what AWS has refused to Karpenter.
func (n NodeEvidence) denied() string {
	for i := range slices.Backward(n.Events) {
		message, _, _ := strings.Cut(n.Events[i].Message, " Encoded authorization failure message")
		for _, code := range []string{"UnauthorizedOperation", "OperationNotPermitted", "AccessDenied", "not authorized to perform"} {
			if n.Events[i].Type == corev1.EventTypeWarning && strings.Contains(message, code) {
				return message
			}
		}
	}
	return ""
}
