// Package v1alpha1 is the API of plumbline in the cluster: the NodeSync, which
// reports that this path of this repository is this cluster's nodes, and the Approval, a person's
// word for what the guard holds.
//
// It speaks Flux's dialect where Flux has one: intervals, Secrets' key names,
// revision strings (main@sha1:<commit>), the reconcile.fluxcd.io/requestedAt
// annotation and kstatus conditions. It holds types, their defaults and their
// CEL rules, and nothing that does anything.
//
// +kubebuilder:object:generate=true
// +groupName=plumbline.dev
package v1alpha1
