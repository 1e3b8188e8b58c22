// Package karpenter plays the kubelet for the pods of Karpenter's Deployment:
// each is one process of the unmodified controller.
//
// In go a client, the built controllers by version, and somebody who starts
// programs. The real Deployment and ReplicaSet controllers make the pods, the
// real scheduler binds them; from there on the Supervisor runs them as a
// kubelet would: the environment and arguments are those of the pod, the
// credentials are a token of its ServiceAccount that is bound to it, the host
// name is the pod's, the status follows the process and its readiness probe,
// and a crash is followed by a restart with back-off. The process ends when
// the pod does, so a Deployment that is scaled to zero or deleted leaves no
// controller running.
//
// It never changes anything but its pods' status, and never deletes a pod
// that was not told to go.
package karpenter
