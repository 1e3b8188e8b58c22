// Package release installs Karpenter's two charts in a cluster as two Helm releases,
// karpenter-crd and karpenter.
//
// In go charts.Charts and a Request; out comes a Result: the step, the revision, and
// what has drifted. An Installer reads the State of both releases, decides the Step of
// each by a pure function (nextStep), rehearses it on the API server before the first
// write, and carries it out by Helm. A repair and a rollback install what an earlier
// revision holds. A drift that keeps coming back is left after three corrections in an
// hour, as the history of the release counts them.
//
// It never waits: readiness is the caller's to observe. No pass uninstalls a release, only a
// user's teardown does (Uninstall). It never drops a CRD or takes one back to an older version, and never writes over what
// package survey says belongs to another tool.
package release
