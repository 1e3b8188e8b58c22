package main

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestCRDsOfTheChart: what another tool applies under the chart's name is that tool's.
func TestCRDsOfTheChart(t *testing.T) {
	helm := map[string]string{"meta.helm.sh/release-name": "karpenter-crd", "meta.helm.sh/release-namespace": "kube-system"}
	managed := map[string]string{"app.kubernetes.io/managed-by": "Helm"}
	with := func(key, value string) map[string]string {
		return map[string]string{"app.kubernetes.io/managed-by": "Helm", key: value, "helm.toolkit.fluxcd.io/namespace": "flux-system", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}
	}
	for name, c := range map[string]struct {
		labels, annotations map[string]string
		want                bool
	}{
		"a release":                 {managed, helm, true},
		"Flux's HelmRelease":        {with("helm.toolkit.fluxcd.io/name", "karpenter-crd"), helm, false},
		"Flux's Kustomization":      {with("kustomize.toolkit.fluxcd.io/name", "karpenter-crd"), nil, false},
		"Argo CD's Application":     {nil, map[string]string{"argocd.argoproj.io/tracking-id": "karpenter-crd:apiextensions.k8s.io/CustomResourceDefinition:/nodepools.karpenter.sh"}, false},
		"a release of another name": {managed, map[string]string{"meta.helm.sh/release-name": "crds", "meta.helm.sh/release-namespace": "kube-system"}, false},
	} {
		if got := ofCRDChart(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Labels: c.labels, Annotations: c.annotations}}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
