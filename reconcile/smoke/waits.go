package smoke

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	karpscheduling "sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
)

const (
	// joinsWithin is how long an instance may boot before the test looks for why it does not become a node, and
	// checksEvery how often it looks.
	joinsWithin, checksEvery = 30 * time.Second, 30 * time.Second
	// initializesWithin is how long a node may take after its registration: agents remove their startup taints, and the
	// CNI plugin starts.
	initializesWithin = time.Minute
	// schedulesWithin is how long kube-scheduler may take for a pod after its node is initialized, and startsWithin how
	// long a container may pull its image.
	schedulesWithin, startsWithin = 15 * time.Second, 30 * time.Second
)

// Joining reports whether an instance of a NodeClaim has run for a while and is no node.
func Joining(claim *karpv1.NodeClaim, now time.Time) bool {
	if claim == nil {
		return false
	}
	launched := becameTrue(claim.StatusConditions().Get(karpv1.ConditionTypeLaunched))
	registered := becameTrue(claim.StatusConditions().Get(karpv1.ConditionTypeRegistered))
	return !launched.IsZero() && registered.IsZero() && claim.Status.NodeName == "" && now.Sub(launched) >= joinsWithin
}

// Unjoined returns why an instance does not become a node: EC2 has terminated it, or what a check has found. Without either, it
// returns a text only after cluster.RegistersWithin, and before that none.
func Unjoined(claim *karpv1.NodeClaim, instance *cloud.Instance, finding string, now time.Time) string {
	id := cloud.InstanceID(claim.Status.ProviderID)
	switch {
	case instance != nil && instance.Gone():
		return strings.TrimSuffix(fmt.Sprintf("EC2 has terminated instance %s before it became a node: %s", id, instance.Reason), ": ")
	case finding != "":
		return fmt.Sprintf("instance %s does not become a node: %s", id, finding)
	case now.Sub(becameTrue(claim.StatusConditions().Get(karpv1.ConditionTypeLaunched))) >= cluster.RegistersWithin:
		return fmt.Sprintf("instance %s runs, and has not become a node; its console shows why: aws ec2 get-console-output --latest --instance-id %[1]s", id)
	}
	return ""
}

// Waits returns why the pod does not run on a node that has registered: the node is not initialized, the pod is not scheduled,
// or its container does not start. It is empty while that takes no longer than usual. The node is nil if it does not exist.
func Waits(s Seen, node *corev1.Node, now time.Time) string {
	if s.Claim == nil || s.Pod == nil || node == nil {
		return ""
	}
	conditions := s.Claim.StatusConditions()
	registered, initialized := becameTrue(conditions.Get(karpv1.ConditionTypeRegistered)), becameTrue(conditions.Get(karpv1.ConditionTypeInitialized))
	switch {
	case s.Pod.Spec.NodeName != "":
		return starting(s.Pod, now)
	case registered.IsZero():
		return ""
	case initialized.IsZero() && now.Sub(registered) >= initializesWithin:
		return uninitialized(s.Claim, node)
	case !initialized.IsZero() && now.Sub(initialized) >= schedulesWithin:
		return unscheduled(s, node)
	}
	return ""
}

// uninitialized returns why Karpenter does not count a node as initialized: Reconcile in
// pkg/controllers/nodeclaim/lifecycle/initialization.go of sigs.k8s.io/karpenter, 1.15.0.
func uninitialized(claim *karpv1.NodeClaim, node *corev1.Node) string {
	for _, startup := range claim.Spec.StartupTaints {
		for i := range node.Spec.Taints {
			if taint := &node.Spec.Taints[i]; startup.MatchTaint(taint) {
				return fmt.Sprintf("Node/%s still has the startup taint %s of NodePool/%s, so that no pod runs there: install what removes it, "+
					"or remove it from spec.template.spec.startupTaints",
					node.Name, taint.ToString(), claim.Labels[karpv1.NodePoolLabelKey])
			}
		}
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return fmt.Sprintf("Node/%s is not Ready: %s", node.Name, cluster.Stable(c.Reason+": "+c.Message))
		}
	}
	message := ""
	if c := claim.StatusConditions().Get(karpv1.ConditionTypeInitialized); c != nil {
		message = ": " + cluster.Stable(c.Message)
	}
	return fmt.Sprintf("Node/%s registered, and is not initialized%s", node.Name, message)
}

// unscheduled returns why kube-scheduler leaves the pod pending although its node is initialized.
func unscheduled(s Seen, node *corev1.Node) string {
	pool := s.Claim.Labels[karpv1.NodePoolLabelKey]
	for _, taint := range node.Spec.Taints {
		if taint.Effect == corev1.TaintEffectPreferNoSchedule || (karpscheduling.Taints{taint}).ToleratesPod(s.Pod) == nil {
			continue
		}
		return fmt.Sprintf("Node/%s has the taint %s, which NodePool/%s does not set: only pods that tolerate it run there. "+
			"Find what sets it, or add it to spec.template.spec.taints",
			node.Name, taint.ToString(), pool)
	}
	for _, c := range s.Pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return fmt.Sprintf("Node/%s is initialized, and kube-scheduler does not use it: %s", node.Name, cluster.Stable(c.Message))
		}
	}
	return ""
}

// usual are the reasons for which a container waits while it starts.
var usual = map[string]bool{"": true, "ContainerCreating": true, "PodInitializing": true}

// starting returns why a container of a scheduled pod does not start.
func starting(pod *corev1.Pod, now time.Time) string {
	scheduled := became(pod, corev1.PodScheduled, corev1.ConditionTrue)
	if scheduled.IsZero() || now.Sub(scheduled) < startsWithin {
		return ""
	}
	for i := range pod.Status.ContainerStatuses {
		waiting := pod.Status.ContainerStatuses[i].State.Waiting
		switch {
		case waiting == nil || usual[waiting.Reason]:
		case waiting.Reason == "ErrImagePull" || waiting.Reason == "ImagePullBackOff":
			// The two alternate, with other messages.
			return fmt.Sprintf("Node/%s cannot pull the image %s: --image names another one, from a registry that the nodes reach",
				pod.Spec.NodeName, pod.Spec.Containers[0].Image)
		default:
			return fmt.Sprintf("the container does not start on Node/%s: %s", pod.Spec.NodeName, cluster.Stable(waiting.Reason+": "+waiting.Message))
		}
	}
	return ""
}
