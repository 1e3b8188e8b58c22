package ebs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A pod with volumes runs once this annotation reports that they are mounted: the nodes' pod stages wait for it.
const volumesAnnotation, mounted = "sandbox.plumbline.dev/volumes", "mounted"

// usage is a node whose volumes in use differ from those in its status.
type usage struct {
	Node  *corev1.Node
	InUse []corev1.UniqueVolumeName
}

// place is a volume on a node.
type place struct {
	node   string
	volume corev1.UniqueVolumeName
}

// unused returns the volumes that nodes report as in use and that none of their pods needs any more.
func unused(v *view) []place {
	var all []place
	for name, node := range v.nodes {
		wanted := v.wanted(name)
		for _, volume := range node.Status.VolumesInUse {
			if !slices.Contains(wanted, volume) {
				all = append(all, place{name, volume})
			}
		}
	}
	return all
}

// usages returns the due reports of the kubelets. A volume is in use from before it is mounted until it is unmounted,
// which takes the driver's pod on that node and some time (kubernetes, pkg/kubelet/volumemanager: VolumesInUse). busy
// reports whether that time is not over yet.
func usages(v *view, busy func(place) bool) []usage {
	var all []usage
	for name, node := range v.nodes {
		if node.Annotations[kwokAnnotation] == "" { // no kubelet, no report
			continue
		}
		inUse, runs := v.wanted(name), v.driverRuns(name)
		for _, volume := range node.Status.VolumesInUse {
			if !runs || busy(place{name, volume}) {
				inUse = append(inUse, volume)
			}
		}
		slices.Sort(inUse)
		inUse = slices.Compact(inUse)
		if !slices.Equal(inUse, node.Status.VolumesInUse) {
			all = append(all, usage{Node: node, InUse: inUse})
		}
	}
	return all
}

// wanted returns the volumes of all existing pods on a node.
func (v *view) wanted(node string) []corev1.UniqueVolumeName {
	var names []corev1.UniqueVolumeName
	for _, pod := range v.pods {
		if pod.Spec.NodeName != node || finished(pod) {
			continue
		}
		for _, in := range pod.Spec.Volumes {
			if volume := v.volume(pod, in); volume != nil {
				names = append(names, inUse(volume))
			}
		}
	}
	return names
}

// mountable returns the waiting pods all of whose volumes are attached to their node, if the node can mount them.
func mountable(v *view) []*corev1.Pod {
	var all []*corev1.Pod
	for _, pod := range v.pods {
		if pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil || pod.Annotations[volumesAnnotation] == mounted {
			continue
		}
		if v.claimed(pod) && v.allAttached(pod) && v.driverRuns(pod.Spec.NodeName) {
			all = append(all, pod)
		}
	}
	return all
}

// claimed reports whether a pod uses claims at all.
func (v *view) claimed(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, isClaimed)
}

func isClaimed(in corev1.Volume) bool { return in.PersistentVolumeClaim != nil || in.Ephemeral != nil }

func (v *view) allAttached(pod *corev1.Pod) bool {
	node := v.nodes[pod.Spec.NodeName]
	for _, in := range pod.Spec.Volumes {
		if !isClaimed(in) {
			continue
		}
		volume := v.volume(pod, in)
		if volume == nil || node == nil || !v.attachedTo(node.Name, volume) ||
			!slices.Contains(node.Status.VolumesInUse, inUse(volume)) {
			return false
		}
	}
	return true
}

// mount does the kubelets' work.
func (d *Driver) mount(ctx context.Context, v *view) error {
	var errs []error
	busy := d.noteUnused(v, time.Now())
	for _, u := range usages(v, busy) {
		names := u.InUse
		if names == nil {
			names = []corev1.UniqueVolumeName{}
		}
		patch, err := json.Marshal(map[string]any{"status": map[string]any{"volumesInUse": names}})
		if err != nil {
			return fmt.Errorf("encode the volumes of node %s: %w", u.Node.Name, err)
		}
		_, err = d.client.CoreV1().Nodes().Patch(ctx, u.Node.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("report the volumes of node %s: %w", u.Node.Name, err))
		}
	}
	for _, pod := range mountable(v) {
		patch, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"uid": pod.UID, "annotations": map[string]string{volumesAnnotation: mounted}},
		})
		if err != nil {
			return fmt.Errorf("encode a patch of pod %s: %w", pod.Name, err)
		}
		_, err = d.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("mount the volumes of pod %s/%s: %w", pod.Namespace, pod.Name, err))
		}
	}
	return errors.Join(errs...)
}

// noteUnused records since when each volume is unused, and returns a function that reports whether one is still being
// unmounted.
func (d *Driver) noteUnused(v *view, now time.Time) func(place) bool {
	since := map[place]time.Time{}
	for _, p := range unused(v) {
		began, known := d.unused[p]
		if !known {
			began = now
			time.AfterFunc(d.unmountTime, d.caches.wake)
		}
		since[p] = began
	}
	d.unused = since
	return func(p place) bool {
		began, isUnused := since[p]
		return isUnused && now.Sub(began) < d.unmountTime
	}
}
