// Package charts takes a reference to Karpenter's two charts to what they render to.
//
// In goes a Ref: the repository, the version and the digests that Git pins. A Store
// returns Charts, both or neither, from its cache by digest or from where they are: an
// OCI registry, a Helm repository, a folder of the checkout. Credentials come in as
// Keys and go to their host only. Verify checks cosign's signatures. Charts and an
// Installation give Documents: what the charts render to, without a cluster, in a child
// process with limits.
//
// It asks no cluster and writes to none (package release does), and keeps no chart in
// memory.
package charts
