package upgrade

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// lastLogLines and maxLog are how much of a log is read, in lines and bytes.
const (
	lastLogLines = 3
	maxLog       = 4096
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
