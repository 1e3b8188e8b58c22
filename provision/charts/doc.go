// Package charts finds, verifies and renders Karpenter's two charts.
//
// Its input is a Ref: the repository, the version and the digests that Git pins. A Store returns Charts, both or
// neither, from its cache by digest or from their origin: an OCI registry, a Helm repository, or a folder of the
// checkout. Keys provide credentials, which are sent only to their host. Verify checks cosign's signatures. Charts
// render with an Installation to Documents, without a cluster, in a child process with limits.
//
// It never contacts a cluster (package release does), and keeps no chart in memory.
package charts
