// Package karpenter contains the rules of Karpenter's versions: what an upgrade may skip, what it requires, and what it
// does to nodes.
//
// Its inputs are versions, CRDs, objects and values; its outputs are hops, requirements, refusals and predictions.
// Rules that depend on a version are tables, and each row cites the file of Karpenter that it was read from: KPA is
// aws/karpenter-provider-aws, KC is kubernetes-sigs/karpenter, both at the tag of the row's version. Rules that can be
// computed from CRDs are in no table.
//
// It is pure: no I/O, no clock, no client, no Helm.
package karpenter
