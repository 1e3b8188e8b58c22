// Package kube runs a Kubernetes control plane as processes of this machine:
// etcd, kube-apiserver with RBAC on, kube-controller-manager with all of its
// usual controllers, kube-scheduler.
//
// In goes a folder, the multi-call binary and somebody who starts programs.
// Out comes a ControlPlane with its endpoint, its certificate authority and
// kubeconfigs: the administrator's, and a ServiceAccount's with a bound
// token, so that a program runs with just the rights that its RBAC gives it.
//
// All lies in the folder, all listens on free loopback ports; any number can
// run side by side. The folder's etcd and pki can be copied while the control
// plane is stopped (Copy), and another one started from the copy keeps the
// certificate authority and the service-account key.
//
// There are no nodes here and nothing that runs pods.
package kube
