package nodes

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// TestBroken: pods that request a resource crash once they are on a broken node, which then offers none of it.
func TestBroken(t *testing.T) {
	gpu := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1"), corev1.ResourceCPU: resource.MustParse("4")}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"generation": "second"}}}
	node.Status.Allocatable, node.Status.Capacity = gpu, gpu
	pod := func(name string, requests corev1.ResourceList) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}
		p.Spec.NodeName, p.Spec.Containers = "n", []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: requests}}}
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		return p
	}
	client := fake.NewClientset(node, pod("train", gpu), pod("web", nil))
	fault := Broken{Nodes: "generation=second", Resource: "nvidia.com/gpu"}
	for range 2 { // the second look changes nothing
		if err := fault.look(t.Context(), client); err != nil {
			t.Fatal(err)
		}
	}
	for name, crashes := range map[string]bool{"train": true, "web": false} {
		p, err := client.CoreV1().Pods("a").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ready := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
		if hasCrashed(p) != crashes || ready == crashes {
			t.Errorf("pod %s: %+v", name, p.Status)
		}
	}
	n, err := client.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if left := n.Status.Allocatable["nvidia.com/gpu"]; !left.IsZero() || n.Status.Capacity.Cpu().IsZero() {
		t.Errorf("the node offers %v of %v", n.Status.Allocatable, n.Status.Capacity)
	}
	writes := 0
	for _, action := range client.Actions() {
		if action.GetVerb() == "patch" {
			writes++
		}
	}
	if writes != 2 {
		t.Errorf("%d patches, want one of the node and one of a pod", writes)
	}
}
