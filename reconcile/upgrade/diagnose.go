package upgrade

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/cluster"
)

// Logs returns the last lines of a container's log or, if previous is true, of the log from before its last restart.
type Logs func(ctx context.Context, namespace, pod, container string, previous bool) (string, error)

// maxCause is the maximum size of the message in bytes.
const maxCause = 700

// Cause returns why a Deployment's pods do not become ready, according to the pods: what a container waits for, how its
// last run terminated, the last lines of its log, its last warning. It omits what cannot be read. hide removes what
// must not be reported, before the text is truncated.
func Cause(
	ctx context.Context, reader client.Reader, logs Logs, deployment *appsv1.Deployment, rollout string, hide func(string) string,
) string {
	pods := &corev1.PodList{}
	if deployment.Spec.Selector == nil {
		return rollout
	}
	err := reader.List(ctx, pods, client.InNamespace(deployment.Namespace), client.MatchingLabels(deployment.Spec.Selector.MatchLabels))
	if err != nil {
		return fmt.Sprintf("%s; its pods cannot be read: %v", rollout, err)
	}
	pod := worst(pods.Items)
	switch {
	case len(pods.Items) == 0:
		return rollout + "; it has no pod"
	case pod == nil:
		return fmt.Sprintf("%s; %s", rollout, allReady(pods.Items))
	}
	parts := []string{rollout, describe(pod)}
	if line := lastLines(ctx, logs, pod); line != "" {
		parts = append(parts, "its log: "+line)
	}
	if warning := lastWarning(ctx, reader, pod); warning != "" {
		parts = append(parts, warning)
	}
	cause := hide(strings.Join(parts, "; "))
	if len(cause) > maxCause {
		cause = strings.ToValidUTF8(cause[:maxCause], "") + "…"
	}
	return cause
}

// allReady reports that all pods are Ready or terminating, so none is worth a diagnosis.
func allReady(pods []corev1.Pod) string {
	up := len(slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool { return p.DeletionTimestamp != nil }))
	if up == 0 {
		return english.Plural(len(pods), "pod of it is", "pods of it are") + " terminating, and no other is there"
	}
	return english.Plural(up, "pod of it is", "pods of it are") + " Ready"
}

// worst returns the latest pod that is not ready.
func worst(pods []corev1.Pod) *corev1.Pod {
	var found *corev1.Pod
	for i := range pods {
		pod := &pods[i]
		if pod.DeletionTimestamp != nil || ready(pod) {
			continue
		}
		if found == nil || found.CreationTimestamp.Before(&pod.CreationTimestamp) {
			found = pod
		}
	}
	return found
}

func ready(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// describe omits counters and times, so the message is stable while nothing changes.
func describe(pod *corev1.Pod) string {
	for i := range pod.Status.ContainerStatuses {
		status := &pod.Status.ContainerStatuses[i]
		var parts []string
		if w := status.State.Waiting; w != nil {
			parts = append(parts, strings.TrimSuffix(w.Reason+": "+oneLine(w.Message), ": "))
		}
		for _, ended := range []*corev1.ContainerStateTerminated{status.State.Terminated, status.LastTerminationState.Terminated} {
			if ended != nil {
				parts = append(parts, strings.TrimSpace(fmt.Sprintf("its last run ended with exit code %d %s", ended.ExitCode, oneLine(ended.Message))))
				break
			}
		}
		if len(parts) > 0 {
			return "pod/" + pod.Name + " " + strings.Join(parts, ", ")
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return "pod/" + pod.Name + " is not scheduled: " + oneLine(c.Message)
		}
	}
	return "pod/" + pod.Name + " is not ready"
}

func lastLines(ctx context.Context, logs Logs, pod *corev1.Pod) string {
	if logs == nil {
		return ""
	}
	for _, previous := range []bool{true, false} {
		text, err := logs(ctx, pod.Namespace, pod.Name, container, previous)
		if told := tellingLines(text); err == nil && told != "" {
			return told
		}
	}
	return ""
}

func lastWarning(ctx context.Context, reader client.Reader, pod *corev1.Pod) string {
	events := &corev1.EventList{}
	err := reader.List(ctx, events, client.InNamespace(pod.Namespace), client.MatchingFieldsSelector{Selector: fields.AndSelectors(
		fields.OneTermEqualSelector("involvedObject.uid", string(pod.UID)),
		fields.OneTermEqualSelector("type", corev1.EventTypeWarning),
	)})
	if err != nil || len(events.Items) == 0 {
		return ""
	}
	last := &events.Items[0]
	for i := range events.Items {
		if last.LastTimestamp.Before(&events.Items[i].LastTimestamp) {
			last = &events.Items[i]
		}
	}
	return "event " + last.Reason + ": " + oneLine(last.Message)
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// lastLogLines and maxLog are how much of a log is read, in lines and bytes: enough for a panic with its stack.
const (
	lastLogLines = 60
	maxLog       = 32 << 10
	// More is read of a running container: among other errors, that of a node's termination is repeated at least every
	// minute (sigs.k8s.io/karpenter pkg/controllers/nodeclaim/lifecycle/controller.go, Register).
	recentLines = 300
	maxRecent   = 512 << 10
)

// PodLogs returns Logs that reads from the API server.
func PodLogs(config *rest.Config) (Logs, error) {
	pods, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for logs: %w", err)
	}
	return func(ctx context.Context, namespace, pod, container string, previous bool) (string, error) {
		lines, limit := int64(lastLogLines), int64(maxLog)
		if !previous {
			lines, limit = recentLines, maxRecent
		}
		text, err := pods.Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{
			Container: container, Previous: previous, TailLines: &lines, LimitBytes: &limit,
		}).DoRaw(ctx)
		if err != nil {
			return "", fmt.Errorf("read the log of pod/%s: %w", pod, err)
		}
		return string(text), nil
	}, nil
}

// ControllerLog returns the end of the logs of the Ready pods of Karpenter's controller; empty if none can be read.
func ControllerLog(ctx context.Context, reader client.Reader, logs Logs, namespace string) string {
	pods := &corev1.PodList{}
	if err := reader.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels(cluster.ControllerLabels())); err != nil {
		return ""
	}
	var all strings.Builder
	for i := range pods.Items {
		if !podReady(&pods.Items[i]) {
			continue
		}
		if text, err := logs(ctx, namespace, pods.Items[i].Name, container, false); err == nil {
			all.WriteString(text + "\n")
		}
	}
	return all.String()
}

// LoggedError returns the latest error that Karpenter's controller has logged about an object since a time, on one line
// and without parts that differ between attempts; empty if there is none. It skips lines that are not JSON.
func LoggedError(log, kind, name string, since time.Time) string {
	for _, text := range slices.Backward(strings.Split(log, "\n")) {
		line := struct {
			Time  time.Time `json:"time"`
			Kind  string    `json:"controllerKind"`
			Name  string    `json:"name"`
			Error string    `json:"error"`
		}{}
		if !strings.Contains(text, name) || json.Unmarshal([]byte(text), &line) != nil || line.Error == "" || line.Kind != kind ||
			line.Name != name {
			continue
		}
		if line.Time.Before(since) {
			return ""
		}
		return cluster.Stable(line.Error)
	}
	return ""
}

// maxReportedLines is how many lines of a log are reported.
const maxReportedLines = 2

// tellingLines returns the lines of a terminated container's log that show the reason: the line of a panic, which its
// stack follows, otherwise the last lines.
func tellingLines(log string) string {
	var lines []string
	for line := range strings.SplitSeq(log, "\n") {
		line = oneLine(line)
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			return line
		}
		if line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-maxReportedLines):], " ")
}
