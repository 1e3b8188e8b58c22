// Package charts makes Karpenter's two Helm charts as upstream would have released them and serves them from a registry of its own.
//
// In goes a release that a module of tests/sandbox/bin pins; out come `karpenter-crd` and `karpenter` under
// oci://127.0.0.1:PORT/karpenter/, which an unmodified `helm pull --plain-http` reads. The charts are packaged at run time from
// the module's own folder, because a module's zip is the source of a release and not the release: it lacks the main chart's
// `crds/` (a link, which zips strip), and its version, image tag and image digest are those of the release before.
//
// Each release is packaged when it is first asked for. For input that is bad, Publish serves charts that lie.
//
// The same version gives the same bytes, and so the same digests, on every machine and in every run. The registry keeps
// what it serves in memory, counts what is asked of it, and can be told to be slow or to fail.
// It never reaches a public registry, and no chart is ever written to the repository.
package charts
