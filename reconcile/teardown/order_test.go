package teardown

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/render"
)

// owned adds a pod on a node that a DaemonSet has, or nobody.
func (s *stage) owned(name, kind, node string) {
	s.t.Helper()
	yes := true
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if kind != "" {
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "any", UID: "any", Controller: &yes}}
	}
	if err := s.client.Create(s.t.Context(), pod); err != nil {
		s.t.Fatal(err)
	}
}

// TestDriveEmptyNodesFirst: nodes whose end moves no pod end before others, wherever NodeClaims are deleted
// a few at a time, and what is noted are the workloads of those that end.
func TestDriveEmptyNodesFirst(t *testing.T) {
	for name, change := range map[string]func(*stage){
		"AtOnce":                             func(*stage) {},
		"the last pool":                      func(s *stage) { s.pace.AwaitPods = false },
		"what Karpenter cannot replace":      func(s *stage) { s.pace.Replaces = true },
		"a static pool without its replicas": func(s *stage) { s.scale("batch") },
	} {
		t.Run(name, func(t *testing.T) {
			s := paced(t, pool("batch", "batch-uid", map[string]any{"limits": map[string]any{"cpu": "0"}}))
			for _, name := range []string{"a", "b", "c", "d"} { // without Karpenter's hash
				s.launch(name, "batch", "batch-uid")
			}
			s.replica("web-a", "web", "node-a")
			s.owned("bare", "", "node-b")
			s.owned("agent", "DaemonSet", "node-c")
			s.replica("job-d", "job", "node-d")
			change(s)
			s.find(render.NodePool, "batch", "batch-uid")
			s.pass()
			for i, want := range []string{"c", "a", "b", "d"} {
				if lines := s.pass(); lines[len(lines)-1] != "delete NodeClaim/"+want {
					t.Fatalf("%d: %v, want the end of %s", i, lines, want)
				}
				if record := s.record()["batch-uid"]; strings.Contains(record, `"name":"job"`) && want != "d" || strings.Contains(record, `"name":"web"`) && want == "c" {
					t.Errorf("noted before the end of %s: %s", want, record)
				}
				if want != "c" && want != "b" {
					s.evict(map[string]string{"a": "web-a", "d": "job-d"}[want])
				}
				s.karpenter("terminated")
			}
		})
	}
}

// TestDriveLooksForEmptyNodes among a bounded number of a pool's.
func TestDriveLooksForEmptyNodes(t *testing.T) {
	left := make([]Claim, looksAtOnce+10)
	for i := range left {
		left[i].Node = "node"
	}
	for ends, want := range map[int]int{0: 0, 1: looksAtOnce, looksAtOnce + 1: looksAtOnce + 1, len(left): len(left), len(left) + 1: len(left)} {
		if got := (Observation{Turn: Turn{Ends: ends}}).looked(left); len(got) != want {
			t.Errorf("where %d end, %d are looked at, want %d", ends, len(got), want)
		}
	}
	if got := (Observation{Turn: Turn{Ends: 1}}).looked(append([]Claim{{Name: "bare"}}, left...)); len(got) != 1 {
		t.Errorf("%d are looked at before one without a node ends", len(got))
	}
}

// scale gives a pool 0 replicas.
func (s *stage) scale(name string) {
	s.t.Helper()
	object := pool(name, "", nil)
	if !s.exists(object) {
		s.t.Fatal("there is no " + name)
	}
	object.Object["spec"] = map[string]any{"replicas": int64(0)}
	if err := s.client.Update(s.t.Context(), object); err != nil {
		s.t.Fatal(err)
	}
}
