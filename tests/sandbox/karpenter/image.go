package karpenter

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// binary is the program that stands for the pod's image.
func (w *worker) binary() (string, error) {
	image := w.pod.Spec.Containers[0].Image
	tag := imageTag(image)
	path, ok := w.options.Binaries[tag]
	if !ok {
		return "", fmt.Errorf("pull image %q: no controller of version %q is built, only %v",
			image, tag, slices.Sorted(maps.Keys(w.options.Binaries)))
	}
	return path, nil
}

// imageTag is the tag of registry/name:tag@digest, without a leading v.
func imageTag(image string) string {
	name, _, _ := strings.Cut(image, "@")
	name = name[strings.LastIndex(name, "/")+1:]
	_, tag, _ := strings.Cut(name, ":")
	return strings.TrimPrefix(tag, "v")
}
