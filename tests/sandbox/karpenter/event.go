package karpenter

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
)

// recording sends events to the API server until it is shut down.
func recording(client kubernetes.Interface) record.EventBroadcaster {
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	return broadcaster
}

// kubelet returns a recorder for events of the kubelet of a pod's node.
func kubelet(broadcaster record.EventBroadcaster, pod *corev1.Pod) record.EventRecorder {
	return broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kubelet", Host: pod.Spec.NodeName})
}

// event records an event about the pod's container.
func (w *worker) event(kind, reason, message string) {
	w.recorder.Event(&corev1.ObjectReference{
		Kind: "Pod", APIVersion: "v1", Namespace: w.pod.Namespace, Name: w.pod.Name, UID: w.pod.UID,
		FieldPath: "spec.containers{" + w.pod.Spec.Containers[0].Name + "}",
	}, kind, reason, message)
}
