// Package karpenter replaces the kubelet for the pods of Karpenter's Deployment: each is one process of the unmodified
// controller.
//
// It takes a client, a function that finds the controllers by the tags of their images, and a starter of programs. The
// real Deployment and ReplicaSet controllers create the pods, and the real scheduler binds them; from there on the
// Supervisor runs them as a kubelet would: it uses the environment and arguments of the pod, the credentials are a
// token of its ServiceAccount that is bound to it, the host name is the pod's, the status and the events follow the
// process and its readiness probe, a crash leads to a restart with back-off, and an unavailable image to waiting for
// it. The process exits with the pod, so a Deployment that is scaled to zero or deleted leaves no controller running.
// Logs serves the logs of the pods.
//
// It never changes anything but its pods' status, and never deletes a pod that was not deleted by others.
package karpenter
