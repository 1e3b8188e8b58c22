// Package kube runs a Kubernetes control plane as processes of this machine: etcd, kube-apiserver with RBAC enabled,
// kube-controller-manager with all of its usual controllers, kube-scheduler.
//
// It takes a folder, the multi-call binary and a starter of programs. It returns a ControlPlane with its endpoint, its
// certificate authority and kubeconfigs: the administrator's, and a ServiceAccount's with a bound token, so that a
// program has exactly the permissions of its RBAC.
//
// Everything is in the folder and listens on free loopback ports; any number can run in parallel. The folder's etcd and
// pki can be copied while the control plane is stopped (Copy), and another one started from the copy keeps the
// certificate authority and the service-account key.
//
// It contains no nodes and nothing that runs pods.
package kube
