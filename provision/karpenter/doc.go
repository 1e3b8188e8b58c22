// Package karpenter holds the rules of Karpenter's versions: what an upgrade may
// skip, what it needs, and what it does to nodes.
//
// In go versions, CRDs, objects and values; out come hops, needs, refusals and
// predictions. Rules that hang on a version are tables, and each row names the
// file of Karpenter that it was read from: KPA is aws/karpenter-provider-aws, KC
// is kubernetes-sigs/karpenter, both at the tag of the row's version. Rules that
// can be computed from CRDs are, and are in no table.
//
// It is pure: no I/O, no clock, no client, no Helm.
package karpenter
