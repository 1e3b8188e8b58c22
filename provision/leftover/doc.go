// Package leftover decides what is left of a cluster's Karpenter in AWS.
//
// Its input is AWS's responses about each kind (cloud.Answer) and the cluster's PersistentVolumes. Its output is a
// Report: what is left, what is kept on purpose, and which query has no response. A cluster is gone only if every query
// has a response and nothing is left. Resources that are attached to an instance that is not terminated are deleted
// with it, or belong to a node that Karpenter did not launch: they do not count.
//
// Deletable selects what a user's command may delete: resources whose tags name this cluster and no other.
//
// The package queries and deletes nothing itself.
package leftover
