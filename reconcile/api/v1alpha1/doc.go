// Package v1alpha1 is plumbline's API: a NodeSync manages a cluster's Karpenter nodes from one path of a repository,
// and an Approval lets a person approve what the guard holds.
//
// It follows Flux's conventions where they exist: intervals, Secrets' key names, revision strings
// (main@sha1:<commit>), the reconcile.fluxcd.io/requestedAt annotation and kstatus conditions. It contains only types,
// their defaults and their CEL rules.
//
// +kubebuilder:object:generate=true
// +groupName=plumbline.dev
package v1alpha1
