package karpenter

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// loopback is where all pods and nodes of the supervisor are.
const loopback = "127.0.0.1"

// status writes one pod's status. It is used by one goroutine.
type status struct {
	client    kubernetes.Interface
	pod       *core.Pod
	restarts  int32
	began     meta.Time
	last      core.ContainerState
	condition map[core.PodConditionType]core.PodCondition
}

func newStatus(client kubernetes.Interface, pod *core.Pod) *status {
	return &status{client: client, pod: pod, condition: map[core.PodConditionType]core.PodCondition{}}
}

// waiting says that the container cannot be started.
func (s *status) waiting(ctx context.Context, reason, message string) error {
	state := core.ContainerState{Waiting: &core.ContainerStateWaiting{Reason: reason, Message: message}}
	return s.write(ctx, core.PodPending, state, false)
}

// running says that the process has started; readiness comes later.
func (s *status) running(ctx context.Context) error {
	s.began = meta.Now()
	return s.ready(ctx, false)
}

// ready says whether the running process is ready.
func (s *status) ready(ctx context.Context, ready bool) error {
	state := core.ContainerState{Running: &core.ContainerStateRunning{StartedAt: s.began}}
	return s.write(ctx, core.PodRunning, state, ready)
}

// crashed says that the process has ended by itself and will be started again.
func (s *status) crashed(ctx context.Context, code int) error {
	s.restarts++
	s.last = core.ContainerState{Terminated: &core.ContainerStateTerminated{
		ExitCode: int32(code), Reason: "Error", StartedAt: s.began, FinishedAt: meta.Now(), //nolint:gosec // an exit code fits
	}}
	state := core.ContainerState{Waiting: &core.ContainerStateWaiting{
		Reason: "CrashLoopBackOff", Message: fmt.Sprintf("back-off restarting failed container of pod %s", s.pod.Name),
	}}
	return s.write(ctx, core.PodRunning, state, false)
}

func (s *status) write(ctx context.Context, phase core.PodPhase, state core.ContainerState, ready bool) error {
	container := &s.pod.Spec.Containers[0]
	started := state.Running != nil
	if s.pod.Status.StartTime == nil {
		s.pod = s.pod.DeepCopy()
		s.pod.Status.StartTime = &meta.Time{Time: time.Now()}
	}
	patch := map[string]any{
		"metadata": map[string]any{"uid": s.pod.UID}, // of this pod, not of one that took its name
		"status": core.PodStatus{
			Phase: phase, HostIP: loopback, PodIP: loopback,
			HostIPs: []core.HostIP{{IP: loopback}}, PodIPs: []core.PodIP{{IP: loopback}},
			StartTime:  s.pod.Status.StartTime,
			Conditions: s.conditions(ready),
			ContainerStatuses: []core.ContainerStatus{{
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
	_, err = s.client.CoreV1().Pods(s.pod.Namespace).Patch(ctx, s.pod.Name, types.StrategicMergePatchType, data, meta.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("write the status of pod %s/%s: %w", s.pod.Namespace, s.pod.Name, err)
	}
	return nil
}

func (s *status) conditions(ready bool) []core.PodCondition {
	return []core.PodCondition{
		s.turn(core.PodReadyToStartContainers, true),
		s.turn(core.PodInitialized, true),
		s.turn(core.PodReady, ready),
		s.turn(core.ContainersReady, ready),
	}
}

// turn keeps the time of a condition's last change.
func (s *status) turn(kind core.PodConditionType, on bool) core.PodCondition {
	value := core.ConditionFalse
	if on {
		value = core.ConditionTrue
	}
	c, known := s.condition[kind]
	if !known || c.Status != value {
		c = core.PodCondition{Type: kind, Status: value, LastTransitionTime: meta.Now(), ObservedGeneration: s.pod.Generation}
		if !on {
			c.Reason, c.Message = "ContainersNotReady", "containers with unready status: ["+s.pod.Spec.Containers[0].Name+"]"
		}
		s.condition[kind] = c
	}
	return c
}
