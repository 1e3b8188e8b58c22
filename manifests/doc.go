// Package manifests is what a cluster needs to run plumbline, as a kustomize
// base, and as a Helm chart made from it. There is no program here but the generators of
// that chart, of two files of rbac-charts and of two pages of docs/reference, and tests that hold the base to what it
// promises: least rights, each with its reason, and Karpenter's own as its chart has them.
package manifests

//go:generate go run ./generate rbac-charts/karpenter.yaml rbac-charts/policy.yaml chart
//go:generate go run ./reference ../docs/reference
