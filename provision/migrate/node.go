package migrate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Annotations of a pod that keep it on its node, which the Cluster Autoscaler and Karpenter respect:
// https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md#what-types-of-pods-can-prevent-ca-from-removing-a-node
// and https://karpenter.sh/docs/concepts/disruption/#pod-level-controls
const (
	safeToEvict  = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	doNotDisrupt = "karpenter.sh/do-not-disrupt"
)

// Owner is a workload that ran on a node when its drain began.
type Owner struct {
	Ref
	// Before are the Ready pods that it had then.
	Before int
	// Wanted and Ready are those that it wants, and has, now. Gone reports whether it was deleted.
	Wanted, Ready int
	Gone          bool
}

// Unsettled returns how many Ready pods of those before are missing; 0 if it runs as before.
func (o Owner) Unsettled() int {
	if o.Gone {
		return 0
	}
	return max(0, min(o.Before, o.Wanted)-o.Ready)
}

// NodeState is a node that goes away.
type NodeState struct {
	// Node is nil once it is deleted.
	Node *corev1.Node
	Pods []corev1.Pod
	// Owners are those in MovedAnnotation.
	Owners  []Owner
	Budgets []policyv1.PodDisruptionBudget
	// Instance is the state of its instance in EC2's terms.
	Instance string
}

// NodeAction is what happens next to a node.
type NodeAction string

// The values of NodeAction.
const (
	CordonNode NodeAction = "cordon"
	// Remember writes the workloads that run on it into MovedAnnotation.
	Remember NodeAction = "remember"
	// Evict evicts pods.
	Evict NodeAction = "evict"
	// Wait reads again later.
	Wait NodeAction = "wait"
	// Terminate terminates its instance.
	Terminate NodeAction = "terminate"
	// Moved is the end: EC2 has terminated the instance, and the Node is deleted.
	Moved NodeAction = "moved"
)

// NodeStep is the next step of a node.
type NodeStep struct {
	Action NodeAction
	// Pods are those to evict.
	Pods []*corev1.Pod
	// Waits is what a wait is for, in words.
	Waits string
}

// NextOfNode decides what happens next to a node that goes away. Every state is one in which a run may have been killed.
func NextOfNode(s NodeState) NodeStep {
	switch {
	case s.Instance == "terminated" && s.Node == nil:
		return NodeStep{Action: Moved}
	case s.Instance == "terminated":
		return NodeStep{Action: Wait, Waits: "Node/" + s.Node.Name + " to be deleted by the cloud controller: its instance is terminated"}
	case s.Instance == "shutting-down":
		return NodeStep{Action: Wait, Waits: "EC2 to terminate the instance"}
	case s.Node == nil:
		return NodeStep{Action: Terminate} // the Node was deleted, and its kubelet stopped
	case !s.Node.Spec.Unschedulable || s.Node.Annotations[CordonAnnotation] == "":
		return NodeStep{Action: CordonNode}
	case s.Node.Annotations[MovedAnnotation] == "":
		return NodeStep{Action: Remember}
	}
	if step, ok := nextOfPods(s.Pods); ok {
		return step
	}
	var unsettled []string
	for _, o := range s.Owners {
		if n := o.Unsettled(); n > 0 {
			unsettled = append(unsettled, fmt.Sprintf("%s (%d of %d pods are Ready)", o.Words(), o.Ready, min(o.Before, o.Wanted)))
		}
	}
	if len(unsettled) > 0 {
		return NodeStep{Action: Wait, Waits: "the pods to run elsewhere: " + few(unsettled)}
	}
	return NodeStep{Action: Terminate}
}

// nextOfPods returns what happens to the pods that are still on a node; ok is false if none is.
func nextOfPods(pods []corev1.Pod) (step NodeStep, ok bool) {
	var evict []*corev1.Pod
	var kept, leaving []string
	for i := range pods {
		p := &pods[i]
		name := "pod " + p.Namespace + "/" + p.Name
		switch why := unmovable(p); {
		case staysOnNode(p), p.Status.Phase == corev1.PodSucceeded, p.Status.Phase == corev1.PodFailed:
		case p.DeletionTimestamp != nil:
			leaving = append(leaving, name)
		case why != "":
			kept = append(kept, name+" "+why)
		default:
			evict = append(evict, p)
		}
	}
	switch {
	case len(evict) > 0:
		return NodeStep{Action: Evict, Pods: evict, Waits: few(kept)}, true
	case len(kept) > 0:
		return NodeStep{Action: Wait, Waits: few(kept)}, true
	case len(leaving) > 0:
		return NodeStep{Action: Wait, Waits: few(leaving) + ", which " + english.PluralWord(len(leaving), "is", "are") + " terminating"}, true
	}
	return NodeStep{}, false
}

// unmovable returns why a pod must not be evicted, and what to do about it; empty if it may be.
func unmovable(p *corev1.Pod) string {
	switch {
	case staysOnNode(p) || p.DeletionTimestamp != nil:
		return ""
	case p.Annotations[safeToEvict] == "false":
		return "is annotated " + safeToEvict + ": \"false\": wait until it ends, or remove the annotation"
	case p.Annotations[doNotDisrupt] == "true":
		return "is annotated " + doNotDisrupt + ": wait until it ends, or remove the annotation"
	case metav1.GetControllerOf(p) == nil:
		return "has no controller that would recreate it: delete it yourself"
	}
	return ""
}

// few joins the first three texts, and counts the others.
func few(all []string) string {
	if len(all) > 3 {
		return strings.Join(all[:3], "; ") + fmt.Sprintf("; and %d more", len(all)-3)
	}
	return strings.Join(all, "; ")
}

// Refused returns why the API server refuses the eviction of a pod: the PodDisruptionBudget that allows none, or the API
// server's message.
func Refused(p *corev1.Pod, budgets []policyv1.PodDisruptionBudget, message string) string {
	for i := range budgets {
		b := &budgets[i]
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if b.Namespace != p.Namespace || err != nil || !selector.Matches(labels.Set(p.Labels)) || b.Status.DisruptionsAllowed > 0 {
			continue
		}
		return fmt.Sprintf("PodDisruptionBudget %s/%s (%d disruptions allowed: %d pods are healthy, %d needed) for pod %s/%s",
			b.Namespace, b.Name, b.Status.DisruptionsAllowed, b.Status.CurrentHealthy, b.Status.DesiredHealthy, p.Namespace, p.Name)
	}
	return fmt.Sprintf("pod %s/%s: %s", p.Namespace, p.Name, message)
}

// Remembered returns the value of MovedAnnotation for the workloads on a node.
func Remembered(all []Owner) (string, error) {
	counts := map[string]int{}
	for _, o := range all {
		counts[o.String()] = o.Before
	}
	text, err := json.Marshal(counts)
	return string(text), err
}

// ParseRemembered parses the value of MovedAnnotation, sorted. What cannot be parsed is omitted: the annotation was edited.
func ParseRemembered(text string) []Owner {
	var counts map[string]int
	if json.Unmarshal([]byte(text), &counts) != nil {
		return nil
	}
	var all []Owner
	for name, before := range counts {
		if ref, ok := ParseRef(name); ok {
			all = append(all, Owner{Ref: ref, Before: before})
		}
	}
	slices.SortFunc(all, func(a, b Owner) int { return strings.Compare(a.String(), b.String()) })
	return all
}

// OwnersOn returns the workloads of the pods on a node that are evicted, sorted: Deployments, ReplicaSets and StatefulSets,
// whose pods run until they are replaced.
func (f *Facts) OwnersOn(node string) []Ref {
	var refs []Ref
	for _, p := range f.podsOn(node) {
		ref := f.controllerOf(p)
		if !staysOnNode(p) && slices.Contains([]string{"Deployment", "ReplicaSet", "StatefulSet"}, ref.Kind) && !slices.Contains(refs, ref) {
			refs = append(refs, ref)
		}
	}
	slices.SortFunc(refs, func(a, b Ref) int { return strings.Compare(a.String(), b.String()) })
	return refs
}

func nodeReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
