package judge

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// TestGoodNodes: a node is good if each pod on it works, at least one that is not of a DaemonSet, and the node itself has no
// problem. What does not count makes no node bad.
func TestGoodNodes(t *testing.T) {
	web := func(name, node string, options ...podOption) *corev1.Pod {
		return newPod(name, node, append([]podOption{owned("StatefulSet", "web", map[string]string{"controller-revision-hash": "web-1"})}, options...)...)
	}
	for name, c := range map[string]struct {
		nodes []Node
		pods  []*corev1.Pod
		want  []string
	}{
		"each for itself": {
			nodes: []Node{
				nodeNamed("new-works"), nodeNamed("new-crashes"), nodeNamed("new-starts"), nodeNamed("new-agent"), nodeNamed("new-empty"),
				nodeNamed("new-pressed", with(since(corev1.NodeMemoryPressure, corev1.ConditionTrue, 5*time.Minute))), nodeNamed("old"),
			},
			pods: []*corev1.Pod{
				newPod("a", "new-works"), newPod("agent-1", "new-works", daemonSet), newPod("b", "new-crashes", crashes), web("web-2", "new-crashes"),
				newPod("c", "new-starts", created(19*time.Minute), unready(19*time.Minute)), newPod("agent-2", "new-agent", daemonSet), newPod("d", "new-pressed"),
			},
			want: []string{"new-works"},
		},
		"a DaemonSet that fails": {
			nodes: []Node{nodeNamed("new"), nodeNamed("old")},
			pods:  []*corev1.Pod{newPod("a", "new"), newPod("agent-1", "new", daemonSet, crashes), newPod("agent-2", "old", daemonSet)},
		},
		"pods that fail on old nodes as well": {
			nodes: []Node{nodeNamed("new"), nodeNamed("old")},
			pods:  []*corev1.Pod{newPod("a", "new", crashes), newPod("b", "old", crashes), web("web-1", "new")},
			want:  []string{"new"},
		},
		"a GPU that is missing": {
			nodes: []Node{nodeNamed("new", launchedFor), nodeNamed("new-gpu", launchedFor, func(n *Node) { n.Offers = resources(1) }), nodeNamed("old", offers)},
			pods:  []*corev1.Pod{web("web-1", "new"), web("web-2", "new-gpu")},
			want:  []string{"new-gpu"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Judge(observed(c.nodes, c.pods...), now).Good); diff != "" {
				t.Errorf("good nodes (-want +got):\n%s", diff)
			}
		})
	}
}
