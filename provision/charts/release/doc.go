// Package release installs Karpenter's two charts in a cluster as two Helm releases, karpenter-crd and karpenter.
//
// Its inputs are charts.Charts and a Request; its output is a Result: the step, the revision, and the drift. An
// Installer reads the State of both releases, chooses the Step of each with a pure function (nextStep), tests it with
// dry runs on the API server before the first write, and runs it with Helm. A repair and a rollback reinstall the
// content of an earlier revision. After three corrections of the same drift within an hour, as recorded in the
// release's history, the drift is no longer corrected.
//
// It never waits: the caller observes readiness. No reconcile uninstalls a release, only a user's teardown does
// (Uninstall). It never removes or downgrades a CRD, and never overwrites what belongs to another tool according to
// package survey.
package release
