package teardown

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
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
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// Evidence is what was found out about the nodes of a removal that stands still.
type Evidence struct {
	// Nodes are a few of those that do not go, the oldest first.
	Nodes []NodeEvidence
	// Budgets are the PodDisruptionBudgets of the namespaces of their pods.
	Budgets []policyv1.PodDisruptionBudget
	// DaemonSets are those of CSI drivers and CNI plugins, where a volume keeps a node.
	DaemonSets plan.DaemonSets
	// Leader is open while a pod of Karpenter's controller leads.
	Leader Gate
	// Now is the time of the pass.
	Now time.Time
}

// NodeEvidence is what hangs on one node that does not go.
type NodeEvidence struct {
	Claim Claim
	// Stays says that Karpenter could replace it, and has not begun to.
	Stays   bool
	Pods    []corev1.Pod
	Volumes []storagev1.VolumeAttachment
	// Events are those of the Node and the NodeClaim.
	Events []corev1.Event
	// Protection is whether EC2 protects the instance of a node that is drained from termination.
	Protection Protection
}

// Protection is what EC2 says of an instance's termination protection.
type Protection string

// What it says; empty where it was not asked, or has not answered.
const (
	Protected   Protection = "Protected"
	Unprotected Protection = "Unprotected"
)

// Diagnose says what keeps a removal, by name, and where it stands still, with
// which commands a person may break the glass. None is ever executed. The same
// evidence makes the same sentence.
func Diagnose(r v1alpha1.Removal, o Observation, e Evidence) (string, []v1alpha1.BreakGlass) {
	if r.Reason == ReasonNodeClaimsLeaving {
		return nodesLeft(r, o, e)
	}
	return r.Message, nil
}

func nodesLeft(r v1alpha1.Removal, o Observation, e Evidence) (string, []v1alpha1.BreakGlass) {
	var found []string
	switch {
	case !o.Controller.Open:
		found = append(found, "nothing drains without Karpenter's controller: "+o.Controller.Message)
	case !e.Leader.Open:
		found = append(found, "nothing drains while no pod of Karpenter's controller leads: "+e.Leader.Message)
	case o.Controller.Message != "":
		found = append(found, "Karpenter's controller is not as the chart says: "+o.Controller.Message)
	}
	var glass []v1alpha1.BreakGlass
	for i := range e.Nodes {
		n := &e.Nodes[i]
		c := n.waitsFor(e)
		found = append(found, fmt.Sprintf("node %s (NodeClaim/%s) waits for %s", n.name(), n.Claim.Name, c.words))
		if g, breakable := n.glass(c); breakable {
			glass = append(glass, g)
		}
	}
	switch {
	case len(found) == 0:
		return r.Message, nil
	case r.Stalled == nil:
		return strings.Join(found, "; "), nil // it may still go by itself
	}
	words := strings.Join(found, "; ")
	if len(glass) > 0 {
		words += fmt.Sprintf("; to end it all the same, at your own risk (%s): %s", glass[0].Risk, glass[0].Command)
	}
	return words, glass
}

func (n *NodeEvidence) name() string {
	if n.Claim.Node == "" {
		return "not registered yet"
	}
	return n.Claim.Node
}

// waitsFor names what keeps a node.
func (n *NodeEvidence) waitsFor(e Evidence) cause {
	if denied := n.denied(); denied != "" {
		return cause{words: "AWS: " + denied}
	}
	if n.Stays {
		return n.stays(e)
	}
	if c, waits := n.waitsForPods(e); waits {
		return c
	}
	if c, waits := n.waitsForVolumes(e.DaemonSets); waits {
		return c
	}
	if !n.Claim.Drained.IsZero() {
		return n.refused()
	}
	if len(n.Claim.Waits) > 0 {
		return cause{words: n.Claim.Waits[0]}
	}
	return cause{words: "Karpenter to end it"}
}

// waitsForPods names the pods that are not evicted. What could be done goes by the first.
func (n *NodeEvidence) waitsForPods(e Evidence) (cause, bool) {
	var all []cause
	for i := range n.Pods {
		if pod := &n.Pods[i]; drains(pod) {
			kind, words := why(pod, e)
			all = append(all, cause{words: "pod " + pod.Namespace + "/" + pod.Name + words, kind: kind, namespace: pod.Namespace, name: pod.Name})
		}
	}
	if len(all) == 0 {
		return cause{}, false
	}
	slices.SortFunc(all, func(a, b cause) int { return cmp.Compare(a.words, b.words) })
	words := make([]string, 0, len(all))
	for _, c := range all {
		words = append(words, c.words)
	}
	first := all[0]
	first.words = names(words)
	return first, true
}

// waitsForVolumes names the volumes that are not detached, and says where that is since their
// driver was evicted from the node.
func (n *NodeEvidence) waitsForVolumes(sets plan.DaemonSets) (cause, bool) {
	if len(n.Volumes) == 0 {
		return cause{}, false
	}
	var volumes []string
	evicted := map[string]bool{}
	for _, v := range n.Volumes {
		volume := v.Name
		if v.Spec.Source.PersistentVolumeName != nil {
			volume = fmt.Sprintf("%s (VolumeAttachment %s)", *v.Spec.Source.PersistentVolumeName, v.Name)
		}
		volumes = append(volumes, "volume "+volume+" to be detached by "+v.Spec.Attacher)
		for _, set := range sets.Intolerant() {
			if slices.Contains(set.Drivers, v.Spec.Attacher) {
				evicted[fmt.Sprintf("%s does not tolerate %s:NoSchedule, so that no pod of it is on the node to unmount: %s", set, karpv1.DisruptedTaintKey, set.Patch())] = true
			}
		}
	}
	slices.Sort(volumes)
	words := names(volumes)
	for _, why := range slices.Sorted(maps.Keys(evicted)) {
		words += "; " + why
	}
	return cause{words: words, kind: v1alpha1.CauseVolume}, true
}

// refused says why EC2 does not take the termination of a node that is drained. Karpenter tells it
// in its log only, so that EC2 is asked whether it protects the instance.
func (n *NodeEvidence) refused() cause {
	const waits = "EC2 to take the termination of %s: it is drained, and EC2 "
	id := instanceID(n.Claim.ProviderID)
	switch n.Protection {
	case Protected:
		return cause{words: fmt.Sprintf(waits+"protects it from termination (disableApiTermination)", id), kind: v1alpha1.CauseProtected}
	case Unprotected:
		return cause{words: fmt.Sprintf(waits+"does not protect it, so that it refuses Karpenter's role ec2:TerminateInstances, or that role is gone; the log of Karpenter's controller has its message", id), kind: v1alpha1.CauseDenied}
	}
	return cause{words: fmt.Sprintf(waits+"refuses it (OperationNotPermitted for termination protection, UnauthorizedOperation without ec2:TerminateInstances); the log of Karpenter's controller has its message", id)}
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
func why(pod *corev1.Pod, e Evidence) (kind v1alpha1.BreakGlassCause, words string) {
	if pod.DeletionTimestamp != nil {
		if len(pod.Finalizers) > 0 {
			return v1alpha1.CauseFinalizer, ", which waits for its finalizer " + strings.Join(pod.Finalizers, ", ")
		}
		return v1alpha1.CausePod, ", which is ending"
	}
	for _, b := range e.Budgets {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err == nil && b.Namespace == pod.Namespace && b.Status.DisruptionsAllowed == 0 && selector.Matches(labels.Set(pod.Labels)) {
			return v1alpha1.CauseBudget, ", of which PodDisruptionBudget " + b.Namespace + "/" + b.Name + " allows no disruption" + numbers(b.Status)
		}
	}
	return undisrupted(pod, e.Now)
}

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
func undisrupted(pod *corev1.Pod, now time.Time) (kind v1alpha1.BreakGlassCause, words string) {
	value := pod.Annotations[karpv1.DoNotDisruptAnnotationKey]
	if value == "true" {
		return v1alpha1.CauseDoNotDisrupt, ", annotated " + karpv1.DoNotDisruptAnnotationKey
	}
	lasts, err := time.ParseDuration(value)
	if err != nil || lasts <= 0 || pod.Status.StartTime == nil {
		return v1alpha1.CausePod, ""
	}
	until := pod.Status.StartTime.Add(lasts)
	if now.Before(until) {
		return v1alpha1.CauseDoNotDisrupt, ", annotated " + karpv1.DoNotDisruptAnnotationKey + " until " + until.UTC().Format(time.RFC3339)
	}
	return v1alpha1.CausePod, ""
}

// deniedAction finds the action in AWS's sentence, and in the SDK's:
// https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_access-denied.html
var deniedAction = regexp.MustCompile(`not authorized to perform: ([a-z0-9-]+:[A-Za-z]+)|operation error ([A-Za-z0-9]+): ([A-Za-z]+)`)

// denied finds what AWS has refused to Karpenter, and names the action that its role lacks.
func (n *NodeEvidence) denied() string {
	for i := range slices.Backward(n.Events) {
		message, _, _ := strings.Cut(n.Events[i].Message, " Encoded authorization failure message")
		for _, code := range []string{"UnauthorizedOperation", "OperationNotPermitted", "AccessDenied", "not authorized to perform"} {
			if n.Events[i].Type != corev1.EventTypeWarning || !strings.Contains(message, code) {
				continue
			}
			if found := deniedAction.FindStringSubmatch(message); found != nil && code != "OperationNotPermitted" {
				return fmt.Sprintf("%s; Karpenter's role lacks %s", strings.TrimSuffix(message, "."), cmp.Or(found[1], strings.ToLower(found[2])+":"+found[3]))
			}
			return message
		}
	}
	return ""
}
