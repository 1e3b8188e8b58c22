// Package karpenter plays the kubelet for the pods of Karpenter's Deployment:
// each is one process of the unmodified controller.
//
// In go a client, somebody who knows the controllers by the tags of their
// images, and somebody who starts programs. The real Deployment and ReplicaSet controllers make the pods, the
// real scheduler binds them; from there on the Supervisor runs them as a
// kubelet would: the environment and arguments are those of the pod, the
// credentials are a token of its ServiceAccount that is bound to it, the host
// name is the pod's, the status and the events follow the process and its
// readiness probe, a crash is followed by a restart with back-off, and an
// image that is not to be had by waiting for it. The process ends when
// the pod does, so a Deployment that is scaled to zero or deleted leaves no
// controller running. Logs answers for what the pods have said.
//
// It never changes anything but its pods' status, and never deletes a pod
// that was not told to go.
package karpenter
