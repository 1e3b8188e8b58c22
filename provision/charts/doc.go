// Package charts is the home of Helm: it finds Karpenter's two charts of one
// version and installs them.
//
// In goes a Ref: the repository, the version and the pins that Git names. A
// Store turns it into Charts, both or neither, from its cache by digest or from
// where they are: an OCI registry, a Helm repository, a folder of the checkout.
// What opens a host comes in as Keys and goes to that host alone. An Installer brings Charts into a cluster as two Helm releases,
// karpenter-crd and karpenter, by a pure decision (Decide) and a thin shell.
//
// Helm's own waits are off: Ensure returns when everything is written, and
// readiness is somebody else's to observe. What the API server would refuse is
// found by a rehearsal before the first write.
//
// It never uninstalls a release, never drops a CRD or takes it back to an older
// version, never takes over what another tool reconciles, or what nobody has asked
// it to, and keeps no chart in memory. A main chart is rolled back by bringing an earlier revision's own chart
// and values once more.
package charts
