package karpenter

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// ErrNoImage means that the image does not exist.
var ErrNoImage = errors.New("not found")

// pull returns the program for the pod's image. It takes as long as its build, as a pull takes time.
func (w *worker) pull(ctx context.Context) (string, error) {
	image := w.pod.Spec.Containers[0].Image
	w.event(corev1.EventTypeNormal, "Pulling", fmt.Sprintf("Pulling image %q", image))
	path, err := w.options.Pull(ctx, imageTag(image))
	if err != nil {
		return "", fmt.Errorf("failed to pull image %q: %w", image, err)
	}
	w.event(corev1.EventTypeNormal, "Pulled", fmt.Sprintf("Successfully pulled image %q", image))
	return path, nil
}

// notPulled reports that as a kubelet does: first the error, then that it waits.
func (w *worker) notPulled(ctx context.Context, err error) {
	w.event(corev1.EventTypeWarning, "Failed", "Failed to pull image: "+err.Error())
	w.report(ctx, w.status.waiting(ctx, "ErrImagePull", err.Error()))
	wait := fmt.Sprintf("Back-off pulling image %q", w.pod.Spec.Containers[0].Image)
	w.event(corev1.EventTypeNormal, "BackOff", wait)
	w.report(ctx, w.status.waiting(ctx, "ImagePullBackOff", wait+": ErrImagePull: "+err.Error()))
}

// imageTag returns the tag of registry/name:tag@digest, without a leading v.
func imageTag(image string) string {
	name, _, _ := strings.Cut(image, "@")
	name = name[strings.LastIndex(name, "/")+1:]
	_, tag, _ := strings.Cut(name, ":")
	return strings.TrimPrefix(tag, "v")
}
