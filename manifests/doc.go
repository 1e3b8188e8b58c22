// Package manifests contains what a cluster needs to run plumbline, as a kustomize base, and as a Helm chart that is
// generated from it. Its only programs are the generators of that chart, of two files of rbac-charts, and of generated
// pages of docs/reference. Its tests check what the base promises: least privilege, each permission with its reason,
// and Karpenter's own as in its chart.
package manifests

//go:generate go run ./generate rbac-charts/karpenter.yaml rbac-charts/policy.yaml chart
//go:generate go run ./reference ../docs/reference
