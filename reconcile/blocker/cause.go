package blocker

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// Cause is what keeps a node.
type Cause struct {
	// Words say it after "waits for". Short says the same with what is to be known first: the
	// budget, and then its pod.
	Words, Short string
	// Kind is the same as one word, where a person could end the node all the same.
	Kind v1alpha1.BreakGlassCause
	// Namespace and Name are those of the pod that keeps it.
	Namespace, Name string
	// Object is what has a finalizer of another controller, as kubectl names it: kind/name.
	Object string
	// Passing says that each drain waits for such as that for a while: a pod that ends, a volume
	// that is detached, Karpenter itself.
	Passing bool
}

// WaitsFor names what keeps a node, the first few of several pods. What could be done goes by the
// first.
func (n *Node) WaitsFor(e Evidence) Cause {
	all := n.Causes(e)
	words := make([]string, 0, len(all))
	for _, c := range all {
		words = append(words, c.Words)
	}
	first := all[0]
	first.Words = finding.First(words)
	return first
}

// Causes are what keeps a node, in the order of their words: several where that is pods, else one.
func (n *Node) Causes(e Evidence) []Cause {
	if denied := n.denied(); denied != "" {
		return one(Cause{Words: "AWS: " + denied})
	}
	if n.Stays {
		return one(n.stays(e))
	}
	if c, held := n.finalizers(); held {
		return one(c)
	}
	if pods := n.pods(e); len(pods) > 0 {
		return pods
	}
	if len(n.Volumes) > 0 {
		return one(n.volumes(e.DaemonSets))
	}
	if !n.Drained.IsZero() {
		return one(n.refused(e))
	}
	if n.Terminating {
		return one(Cause{Words: fmt.Sprintf("EC2 to terminate %s: it has accepted the termination", cloud.InstanceID(n.ProviderID)), Passing: true})
	}
	if len(n.Waits) > 0 {
		return one(Cause{Words: n.Waits[0], Passing: true})
	}
	return one(Cause{Words: "Karpenter to terminate it", Passing: true})
}

// finalizers names those of other controllers on the NodeClaim or its Node, once Karpenter has removed its own: nothing
// but these is left to wait for.
func (n *Node) finalizers() (Cause, bool) {
	switch {
	case Held(n.Finalizers):
		return n.foreign("nodeclaim", "NodeClaim", n.Claim, n.Finalizers), true
	case Held(n.NodeFinalizers):
		return n.foreign("node", "Node", n.Name, n.NodeFinalizers), true
	}
	return Cause{}, false
}

// Held reports whether only finalizers of other controllers than Karpenter keep an object that is terminating.
func Held(finalizers []string) bool {
	return len(finalizers) > 0 && !slices.Contains(finalizers, karpv1.TerminationFinalizer)
}

// foreign is the wait for other controllers' finalizers. Karpenter removes its own once the instance is terminated, but so can
// anyone: it has finished only if EC2 has accepted the termination. Otherwise no command is offered, by which an instance
// that runs would lose its NodeClaim.
func (n *Node) foreign(resource, kind, name string, finalizers []string) Cause {
	waits := fmt.Sprintf("%s of %s/%s", WaitsForFinalizers(finalizers), kind, name)
	if !n.Terminating {
		return Cause{Words: waits + "; Karpenter's own finalizer is gone, and whether EC2 has terminated the instance is unknown"}
	}
	return Cause{
		Words:  waits + ", with which Karpenter has finished",
		Kind:   v1alpha1.CauseObjectFinalizer,
		Object: resource + "/" + name,
	}
}

// WaitsForFinalizers names finalizers after "waits for", and who removes them.
func WaitsForFinalizers(finalizers []string) string {
	var karpenters, others []string
	for _, f := range finalizers {
		if f == karpv1.TerminationFinalizer || f == awsv1.TerminationFinalizer {
			karpenters = append(karpenters, f)
		} else {
			others = append(others, f)
		}
	}
	var words []string
	if len(karpenters) > 0 {
		words = append(words, "Karpenter to remove finalizer "+finding.Few(karpenters, ", "))
	}
	if len(others) > 0 {
		words = append(words, "another controller to remove finalizer "+finding.Few(others, ", "))
	}
	return strings.Join(words, ", and ")
}

func one(c Cause) []Cause {
	c.Short = cmp.Or(c.Short, c.Words)
	return []Cause{c}
}

// pods are those that are not evicted.
func (n *Node) pods(e Evidence) []Cause {
	var all []Cause
	for i := range n.Pods {
		if pod := &n.Pods[i]; Drains(pod) {
			all = append(all, why(pod, e))
		}
	}
	slices.SortFunc(all, byWords)
	return all
}

// stays says why Karpenter does not replace a node: the pod that it waits for, where that is known,
// else Karpenter's own words.
func (n *Node) stays(e Evidence) Cause {
	kept := slices.DeleteFunc(n.pods(e), func(c Cause) bool { return c.bare() })
	if len(kept) > 0 {
		return kept[0]
	}
	for i := range slices.Backward(n.Events) {
		if n.Events[i].Reason == disruptionBlocked && !n.over(&n.Events[i], e) {
			return Cause{Words: "Karpenter to replace it, which says: " + quoted(&n.Events[i], e.Now)}
		}
	}
	return Cause{Words: "Karpenter to replace it"}
}

func byWords(a, b Cause) int { return cmp.Compare(a.Words, b.Words) }

// volumes names those that are not detached, and says where that is since their driver was evicted
// from the node.
func (n *Node) volumes(sets plan.DaemonSets) Cause {
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
	words := finding.First(volumes)
	for _, why := range slices.Sorted(maps.Keys(evicted)) {
		words += "; " + why
	}
	return Cause{Words: words, Kind: v1alpha1.CauseVolume, Passing: len(evicted) == 0}
}

// deniedAction finds the action in AWS's sentence, and in the SDK's:
// https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_access-denied.html
var deniedAction = regexp.MustCompile(`not authorized to perform: ([a-z0-9-]+:[A-Za-z]+)|operation error ([A-Za-z0-9]+): ([A-Za-z]+)`)

// actionOf is the action that AWS has refused by its sentence, else the last one that the SDK names; empty where there
// is none.
func actionOf(message string) string {
	action := ""
	for _, found := range deniedAction.FindAllStringSubmatch(message, -1) {
		if found[1] != "" {
			return found[1]
		}
		action = strings.ToLower(found[2]) + ":" + found[3]
	}
	return action
}

// denied finds what AWS has refused to Karpenter, and names the action that its role lacks.
func (n *Node) denied() string {
	for i := range slices.Backward(n.Events) {
		message, _, _ := strings.Cut(n.Events[i].Message, " Encoded authorization failure message")
		for _, code := range []string{unauthorized, notPermitted, "AccessDenied", "not authorized to perform"} {
			if n.Events[i].Type != corev1.EventTypeWarning || !strings.Contains(message, code) {
				continue
			}
			if action := actionOf(message); action != "" && code != notPermitted {
				return fmt.Sprintf("%s; Karpenter's role lacks %s", strings.TrimSuffix(message, "."), action)
			}
			return message
		}
	}
	return ""
}
