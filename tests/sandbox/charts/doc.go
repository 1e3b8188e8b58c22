// Package charts packages Karpenter's two Helm charts as upstream would have released them and serves them from its own
// registry.
//
// From a release that a module of tests/sandbox/bin pins, it makes `karpenter-crd` and `karpenter` under
// oci://127.0.0.1:PORT/karpenter/, which an unmodified `helm pull --plain-http` reads. The charts are packaged at run
// time from the module's own folder, because a module's zip is the source of a release and not the release: it does not
// contain the main chart's `crds/` (a link, which zips omit), and its version, image tag and image digest are those of
// the previous release.
//
// Each release is packaged on demand. For tests with bad input, Publish serves forged charts.
//
// The same version gives the same bytes, and so the same digests, on every machine and in every run. The registry keeps
// what it serves in memory, counts requests, and can be made slow or made to fail. It never accesses a public registry,
// and never writes a chart to the repository.
package charts
