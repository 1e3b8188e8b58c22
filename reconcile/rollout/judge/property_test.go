package judge

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// drawPods draws pods of a few workloads on nodes, in any state.
func drawPods(t *rapid.T, label string, nodes []string) []*corev1.Pod {
	owners := []podOption{
		template("a"), template("b"), daemonSet, owned("", "", nil),
		owned("Job", "etl", map[string]string{"job-name": "etl"}), owned("StatefulSet", "db", map[string]string{"controller-revision-hash": "db-1"}),
	}
	states := []podOption{
		func(*corev1.Pod) {}, crashes, unready(3 * time.Minute), unready(19*time.Minute + 30*time.Second), waiting("ErrImagePull"),
		waiting("ContainerCreating"), restarted(1, 19*time.Minute, "Error"), restarted(2, 4*time.Minute, "OOMKilled"), failed("Evicted"),
		failed("Preempting"), task, wants("nvidia.com/gpu"),
	}
	var pods []*corev1.Pod
	for i := range rapid.IntRange(0, 12).Draw(t, label) {
		age := time.Duration(rapid.IntRange(-10, 19).Draw(t, "created")) * time.Minute
		pods = append(pods, newPod(label+string(rune('a'+i)), rapid.SampledFrom(nodes).Draw(t, "node"), created(age),
			rapid.SampledFrom(owners).Draw(t, "owner"), rapid.SampledFrom(states).Draw(t, "state"), rapid.SampledFrom(states).Draw(t, "state")))
	}
	return pods
}

func drawNodes(t *rapid.T, names ...string) []Node {
	states := []func(*Node){
		func(*Node) {}, offers, gpuType, launchedFor, with(since(corev1.NodeReady, "False", 0)), with(since("KernelDeadlock", "True", 0)),
	}
	var nodes []Node
	for _, name := range names {
		nodes = append(nodes, nodeNamed(name, rapid.SampledFrom(states).Draw(t, "node")))
	}
	return nodes
}

// TestOrderDoesNotMatter: permuting pods and nodes changes nothing.
func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := drawNodes(t, "new1", "new2", "old1", "old2")
		pods := drawPods(t, "p", []string{"new1", "new2", "old1", "old2"})
		want := Judge(observed(nodes, pods...), now)
		got := Judge(observed(rapid.Permutation(nodes).Draw(t, "nodes"), rapid.Permutation(pods).Draw(t, "pods")...), now)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("in another order (-want +got):\n%s", diff)
		}
		if got.Message == "" || strings.Contains(got.Message, "\n") {
			t.Fatalf("%s: %q is not a line", got.State, got.Message)
		}
	})
}

// TestHealthyPodsDoNotMakeAWaveBad: a wave that is good stays good with one more healthy pod on its nodes.
func TestHealthyPodsDoNotMakeAWaveBad(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := drawNodes(t, "new1", "new2", "old1")
		pods := append(drawPods(t, "p", []string{"new1", "new2", "old1"}), newPod("works", "new1"))
		before := Judge(observed(nodes, pods...), now)
		pods = append(pods, newPod("healthy", rapid.SampledFrom([]string{"new1", "new2"}).Draw(t, "node"),
			rapid.SampledFrom([]podOption{template("a"), template("b"), daemonSet, owned("", "", nil)}).Draw(t, "owner")))
		after := Judge(observed(nodes, pods...), now)
		if before.State == Good && after.State != Good || before.State != Bad && after.State == Bad {
			t.Fatalf("with a healthy pod %s becomes %s: %s", before.State, after.State, after.Message)
		}
	})
}

// TestEqualFailuresAreNeverBad: a wave is not bad if everything on its nodes is the same on the old ones.
func TestEqualFailuresAreNeverBad(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := drawNodes(t, "new1", "new2")
		pods := drawPods(t, "p", []string{"new1", "new2"})
		for _, n := range nodes[:2:2] {
			n.Name = "old" + n.Name
			nodes = append(nodes, n)
		}
		for _, pod := range pods[:len(pods):len(pods)] {
			if len(pod.OwnerReferences) == 0 {
				daemonSet(pod) // a pod without a controller has nothing to be compared with
			}
			old := pod.DeepCopy()
			old.Name, old.Spec.NodeName = "old"+pod.Name, "old"+pod.Spec.NodeName
			pods = append(pods, old)
		}
		if got := Judge(observed(nodes, pods...), now); got.State == Bad {
			t.Fatalf("%s, although all is equal on old nodes: %s", got.State, got.Message)
		}
	})
}
