package capture

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// trimPod keeps of a pod what decides where it runs and whether it may be evicted.
func trimPod(pod *corev1.Pod) corev1.Pod {
	trimmed := corev1.Pod{ObjectMeta: trimMetadata(&pod.ObjectMeta, podAnnotation), Spec: trimPodSpec(&pod.Spec)}
	trimmed.Status.Phase, trimmed.Status.StartTime = pod.Status.Phase, pod.Status.StartTime
	trimmed.Status.NominatedNodeName = pod.Status.NominatedNodeName
	for _, c := range pod.Status.Conditions {
		trimmed.Status.Conditions = append(trimmed.Status.Conditions, corev1.PodCondition{Type: c.Type, Status: c.Status, Reason: c.Reason})
	}
	return trimmed
}

// podAnnotation says whether scheduling reads an annotation of a pod.
func podAnnotation(key string) bool {
	return key == karpv1.DoNotDisruptAnnotationKey || key == corev1.PodDeletionCost
}

// karpenterAnnotation says whether an annotation of a definition, node or NodeClaim is Karpenter's
// or plumbline's.
func karpenterAnnotation(key string) bool {
	prefix, _, _ := strings.Cut(key, "/")
	return prefix == "karpenter.sh" || prefix == "karpenter.k8s.aws" || prefix == "plumbline.dev"
}

// trimMetadata keeps what objects are found by, and the annotations that are asked for.
func trimMetadata(o *metav1.ObjectMeta, keep func(string) bool) metav1.ObjectMeta {
	trimmed := metav1.ObjectMeta{
		Name: o.Name, Namespace: o.Namespace, UID: o.UID, Labels: o.Labels, Generation: o.Generation,
		CreationTimestamp: o.CreationTimestamp, DeletionTimestamp: o.DeletionTimestamp,
	}
	for key, value := range o.Annotations {
		if keep(key) {
			metav1.SetMetaDataAnnotation(&trimmed, key, value)
		}
	}
	for _, owner := range o.OwnerReferences {
		trimmed.OwnerReferences = append(trimmed.OwnerReferences, metav1.OwnerReference{APIVersion: owner.APIVersion, Kind: owner.Kind, Name: owner.Name, UID: owner.UID, Controller: owner.Controller})
	}
	return trimmed
}

func trimPodSpec(s *corev1.PodSpec) corev1.PodSpec {
	trimmed := corev1.PodSpec{
		NodeName: s.NodeName, NodeSelector: s.NodeSelector, Affinity: s.Affinity, Tolerations: s.Tolerations,
		TopologySpreadConstraints: s.TopologySpreadConstraints, Priority: s.Priority, PreemptionPolicy: s.PreemptionPolicy,
		Overhead: s.Overhead, SchedulerName: s.SchedulerName, TerminationGracePeriodSeconds: s.TerminationGracePeriodSeconds,
		HostNetwork: s.HostNetwork, Resources: trimResources(s.Resources),
		Containers: trimContainers(s.Containers), InitContainers: trimContainers(s.InitContainers), Volumes: trimVolumes(s.Volumes),
	}
	for i := range s.ResourceClaims {
		trimmed.ResourceClaims = append(trimmed.ResourceClaims, corev1.PodResourceClaim{Name: fmt.Sprintf("claim-%d", i)})
	}
	return trimmed
}

func trimResources(r *corev1.ResourceRequirements) *corev1.ResourceRequirements {
	if r == nil {
		return nil
	}
	return &corev1.ResourceRequirements{Requests: r.Requests, Limits: r.Limits}
}

// trimContainers keeps what containers ask for, and which ports of the node they take.
func trimContainers(containers []corev1.Container) []corev1.Container {
	var kept []corev1.Container
	for i, c := range containers {
		trimmed := corev1.Container{Name: fmt.Sprintf("c%d", i), Resources: *trimResources(&c.Resources), RestartPolicy: c.RestartPolicy}
		for n := range c.Resources.Claims {
			trimmed.Resources.Claims = append(trimmed.Resources.Claims, corev1.ResourceClaim{Name: fmt.Sprintf("claim-%d", n)})
		}
		for _, p := range c.Ports {
			if p.HostPort != 0 {
				trimmed.Ports = append(trimmed.Ports, corev1.ContainerPort{HostPort: p.HostPort, ContainerPort: p.ContainerPort, HostIP: p.HostIP, Protocol: p.Protocol})
			}
		}
		kept = append(kept, trimmed)
	}
	return kept
}

// trimVolumes keeps those that are bound to a zone or a node: claims. The name of an ephemeral one
// is part of its claim's.
func trimVolumes(volumes []corev1.Volume) []corev1.Volume {
	var kept []corev1.Volume
	for _, v := range volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			kept = append(kept, corev1.Volume{Name: v.Name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: v.PersistentVolumeClaim.ClaimName}}})
		case v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
			kept = append(kept, corev1.Volume{Name: v.Name, VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
				Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: v.Ephemeral.VolumeClaimTemplate.Spec.StorageClassName, VolumeName: v.Ephemeral.VolumeClaimTemplate.Spec.VolumeName},
			}}}})
		}
	}
	return kept
}
