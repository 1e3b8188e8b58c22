package karpenter

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

// status writes one pod's status. It is not safe for concurrent use.
type status struct {
	client    kubernetes.Interface
	pod       *corev1.Pod
	podIP     string
	hostIP    string
	restarts  int32
	began     metav1.Time
	last      corev1.ContainerState
	condition map[corev1.PodConditionType]corev1.PodCondition
}

func newStatus(client kubernetes.Interface, pod *corev1.Pod) *status {
	return &status{client: client, pod: pod, podIP: address(pod), condition: map[corev1.PodConditionType]corev1.PodCondition{}}
}

// waiting reports that the container cannot be started.
func (s *status) waiting(ctx context.Context, reason, message string) error {
	state := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	return s.write(ctx, corev1.PodPending, state, false)
}

// running reports that the process has started; readiness comes later.
func (s *status) running(ctx context.Context) error {
	s.began = metav1.Now()
	return s.ready(ctx, false)
}

// ready reports whether the running process is ready.
func (s *status) ready(ctx context.Context, ready bool) error {
	state := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: s.began}}
	return s.write(ctx, corev1.PodRunning, state, ready)
}

// crashed reports that the process has exited on its own and will be restarted.
func (s *status) crashed(ctx context.Context, code int, message string) error {
	s.restarts++
	reason := "Error"
	if code == 0 {
		reason = "Completed"
	}
	s.last = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: int32(code), Reason: reason, Message: message, StartedAt: s.began, FinishedAt: metav1.Now(),
	}}
	state := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
		Reason: "CrashLoopBackOff", Message: fmt.Sprintf("back-off restarting failed container of pod %s", s.pod.Name),
	}}
	return s.write(ctx, corev1.PodRunning, state, false)
}

func (s *status) write(ctx context.Context, phase corev1.PodPhase, state corev1.ContainerState, ready bool) error {
	container := &s.pod.Spec.Containers[0]
	started := state.Running != nil
	if s.pod.Status.StartTime == nil {
		s.pod = s.pod.DeepCopy()
		s.pod.Status.StartTime = &metav1.Time{Time: time.Now()}
	}
	patch := map[string]any{
		"metadata": map[string]any{"uid": s.pod.UID}, // of this pod, not of another one with its name
		"status": corev1.PodStatus{
			Phase: phase, HostIP: s.hostIP, PodIP: s.podIP,
			HostIPs: []corev1.HostIP{{IP: s.hostIP}}, PodIPs: []corev1.PodIP{{IP: s.podIP}},
			StartTime:  s.pod.Status.StartTime,
			Conditions: s.conditions(ready),
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: container.Name, Image: container.Image, ImageID: container.Image,
				Ready: ready, Started: &started, RestartCount: s.restarts,
				State: state, LastTerminationState: s.last,
			}},
		},
	}
	data, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("encode the status of pod %s: %w", s.pod.Name, err)
	}
	_, err = s.client.CoreV1().Pods(s.pod.Namespace).Patch(ctx, s.pod.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("write the status of pod %s/%s: %w", s.pod.Namespace, s.pod.Name, err)
	}
	return nil
}

func (s *status) conditions(ready bool) []corev1.PodCondition {
	return []corev1.PodCondition{
		s.turn(corev1.PodReadyToStartContainers, true),
		s.turn(corev1.PodInitialized, true),
		s.turn(corev1.PodReady, ready),
		s.turn(corev1.ContainersReady, ready),
	}
}

// turn keeps the transition time of a condition that has not changed.
func (s *status) turn(kind corev1.PodConditionType, on bool) corev1.PodCondition {
	value := corev1.ConditionFalse
	if on {
		value = corev1.ConditionTrue
	}
	c, known := s.condition[kind]
	if !known || c.Status != value {
		c = corev1.PodCondition{Type: kind, Status: value, LastTransitionTime: metav1.Now(), ObservedGeneration: s.pod.Generation}
		if !on {
			c.Reason, c.Message = "ContainersNotReady", "containers with unready status: ["+s.pod.Spec.Containers[0].Name+"]"
		}
		s.condition[kind] = c
	}
	return c
}
