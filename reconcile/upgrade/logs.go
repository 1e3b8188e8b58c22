package upgrade

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// lastLogLines and maxLog are how much of a log is read, in lines and bytes: enough
// for a panic with its stack.
const (
	lastLogLines = 60
	maxLog       = 32 << 10
)

// PodLogs reads logs from the API server.
func PodLogs(config *rest.Config) (Logs, error) {
	client, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for logs: %w", err)
	}
	return func(ctx context.Context, namespace, pod, container string, previous bool) (string, error) {
		lines, limit := int64(lastLogLines), int64(maxLog)
		text, err := client.Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{
			Container: container, Previous: previous, TailLines: &lines, LimitBytes: &limit,
		}).DoRaw(ctx)
		if err != nil {
			return "", fmt.Errorf("read the log of pod/%s: %w", pod, err)
		}
		return string(text), nil
	}, nil
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
