package upgrade

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/observe"
)

// lastLogLines and maxLog are how much of a log is read, in lines and bytes: enough
// for a panic with its stack.
const (
	lastLogLines = 60
	maxLog       = 32 << 10
	// Of one that runs more is read: the error of a node's end is repeated each minute at the least
	// (sigs.k8s.io/karpenter pkg/controllers/nodeclaim/lifecycle/controller.go, Register), among others.
	recentLines = 300
	maxRecent   = 512 << 10
)

// PodLogs reads logs from the API server.
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

// ControllerLog is the end of the logs of the Ready pods of Karpenter's controller; empty where none can be
// read.
func ControllerLog(ctx context.Context, reader client.Reader, logs Logs, namespace string) string {
	pods := &corev1.PodList{}
	if err := reader.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels(observe.ControllerLabels())); err != nil {
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

// LoggedError returns the newest error that Karpenter's controller has logged of an object since a time, on one line and without
// what differs from one attempt to the next; empty if there is none. Lines that are not JSON are skipped.
func LoggedError(log, kind, name string, since time.Time) string {
	for _, text := range slices.Backward(strings.Split(log, "\n")) {
		line := struct {
			Time  time.Time `json:"time"`
			Kind  string    `json:"controllerKind"`
			Name  string    `json:"name"`
			Error string    `json:"error"`
		}{}
		if !strings.Contains(text, name) || json.Unmarshal([]byte(text), &line) != nil || line.Error == "" || line.Kind != kind || line.Name != name {
			continue
		}
		if line.Time.Before(since) {
			return ""
		}
		return observe.Stable(line.Error)
	}
	return ""
}

// maxTold is how many lines of a log are reported.
const maxTold = 2

// telling picks what a log that ended tells of why: the line of a panic, which its
// stack follows, or else the last lines.
func telling(log string) string {
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
	return strings.Join(lines[max(0, len(lines)-maxTold):], " ")
}
