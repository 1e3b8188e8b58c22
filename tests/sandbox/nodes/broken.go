package nodes

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Broken is a fault of the Nodes with certain labels: pods crash there.
type Broken struct {
	// Nodes selects the Nodes, by a label that their NodePool gives them, and Pods the pods on them; as in kubectl -l.
	Nodes, Pods string
	// Resource is an extended resource. If not empty, only pods that request it crash, and the Nodes offer none of it
	// once such a pod runs there, as if its devices became unhealthy.
	Resource string
}

// breakEvery is how often Break looks for pods to break: much less than it takes kwok to start one.
const breakEvery = 50 * time.Millisecond

// Break breaks Nodes until ctx ends: those that exist, and those that are created. Errors are ignored: it tries again.
// A pod that has crashed stays in its crash loop.
func Break(ctx context.Context, client kubernetes.Interface, b Broken) {
	ticker := time.NewTicker(breakEvery)
	defer ticker.Stop()
	for {
		_ = b.look(ctx, client)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// look breaks what runs at the moment.
func (b Broken) look(ctx context.Context, client kubernetes.Interface) error {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: b.Nodes})
	if err != nil {
		return fmt.Errorf("list the nodes to break: %w", err)
	}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		pods, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
			LabelSelector: b.Pods, FieldSelector: "spec.nodeName=" + node.Name,
		})
		if err != nil {
			return fmt.Errorf("list the pods to break on %s: %w", node.Name, err)
		}
		for p := range pods.Items {
			if err := b.breakPod(ctx, client, node, &pods.Items[p]); err != nil {
				return err
			}
		}
	}
	return nil
}

// breakPod makes a pod crash, if possible before it is Ready, and takes the resource from its node.
func (b Broken) breakPod(ctx context.Context, client kubernetes.Interface, node *corev1.Node, pod *corev1.Pod) error {
	runs := pod.Status.Phase == corev1.PodPending || pod.Status.Phase == corev1.PodRunning
	if pod.DeletionTimestamp != nil || !runs || !b.affects(pod) {
		return nil
	}
	if quantity := node.Status.Allocatable[corev1.ResourceName(b.Resource)]; b.Resource != "" && !quantity.IsZero() {
		none := map[string]any{"status": map[string]any{"allocatable": map[string]string{b.Resource: "0"}}}
		if err := patchStatus(none, func(patch []byte) error {
			_, err := client.CoreV1().Nodes().PatchStatus(ctx, node.Name, patch)
			return err
		}); err != nil {
			return fmt.Errorf("take %s from node %s: %w", b.Resource, node.Name, err)
		}
	}
	if hasCrashed(pod) {
		return nil
	}
	if err := patchStatus(map[string]any{"status": crashed(pod, metav1.Now())}, func(patch []byte) error {
		_, err := client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	}); err != nil {
		return fmt.Errorf("make pod %s/%s crash: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// affects reports whether a pod requests the resource.
func (b Broken) affects(pod *corev1.Pod) bool {
	if b.Resource == "" {
		return true
	}
	for _, c := range pod.Spec.Containers {
		if quantity := c.Resources.Requests[corev1.ResourceName(b.Resource)]; !quantity.IsZero() {
			return true
		}
	}
	return false
}

func patchStatus(status any, send func([]byte) error) error {
	patch, err := json.Marshal(status)
	if err != nil {
		return err
	}
	return send(patch)
}

// restarts is how often the container of a broken pod has restarted.
const restarts = 5

func hasCrashed(pod *corev1.Pod) bool {
	return len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].RestartCount == restarts
}

// crashed returns the status of a pod whose containers crash, as a kubelet reports it after a few restarts.
func crashed(pod *corev1.Pod, now metav1.Time) corev1.PodStatus {
	status := corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &now}
	for _, kind := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{
			Type: kind, Status: corev1.ConditionFalse, Reason: "ContainersNotReady", LastTransitionTime: now,
		})
	}
	started := false
	for _, c := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Started: &started, RestartCount: restarts,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: 1, Reason: "Error", StartedAt: now, FinishedAt: now,
			}},
		})
	}
	return status
}
