package teardown

import (
	"cmp"
	"slices"
	"strings"
)

// disruptionBlocked is the reason of the event by which Karpenter says why it does not replace a node
// (sigs.k8s.io/karpenter pkg/controllers/disruption/events/events.go).
const disruptionBlocked = "DisruptionBlocked"

// stays says why Karpenter does not replace a node: the pod that it waits for, where that is known,
// else Karpenter's own words.
func (n *NodeEvidence) stays(e Evidence) cause {
	var all []cause
	for i := range n.Pods {
		if pod := &n.Pods[i]; drains(pod) {
			if kind, words := why(pod, e); words != "" {
				all = append(all, cause{words: "pod " + pod.Namespace + "/" + pod.Name + words, kind: kind, namespace: pod.Namespace, name: pod.Name})
			}
		}
	}
	if len(all) > 0 {
		return slices.MinFunc(all, func(a, b cause) int { return cmp.Compare(a.words, b.words) })
	}
	for i := range slices.Backward(n.Events) {
		if n.Events[i].Reason == disruptionBlocked {
			return cause{words: "Karpenter to replace it, which says: " + strings.TrimSuffix(n.Events[i].Message, ".")}
		}
	}
	return cause{words: "Karpenter to replace it"}
}
