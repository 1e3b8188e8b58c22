package main

import (
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/provision/owners"
)

// TestOwners prints who applies what, and what to do if two tools apply one object.
func TestOwners(t *testing.T) {
	s, kubeconfig := serve(t, verdicts()["in-sync"])
	pools(s, 3, 0)
	s.objects["/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodepools.karpenter.sh"] = map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{
			"name": "nodepools.karpenter.sh", "labels": map[string]any{"app.kubernetes.io/managed-by": "Helm"},
			"annotations": map[string]any{"meta.helm.sh/release-name": "karpenter-crd", "meta.helm.sh/release-namespace": "kube-system"},
		},
		"spec": map[string]any{},
	}
	metadata := func(pool string) map[string]any {
		return s.objects["/apis/karpenter.sh/v1/nodepools/"+pool].(map[string]any)["metadata"].(map[string]any)
	}
	got := plumbline(t, "owners", "--kubeconfig", kubeconfig)
	if got.code != exitDone || strings.Contains(got.out, "Ways out") {
		t.Errorf("one applier each: code %d:\n%s%s", got.code, got.out, got.err)
	}
	metadata("pool-01")["annotations"] = map[string]any{"argocd.argoproj.io/tracking-id": "nodes:karpenter.sh/NodePool:/pool-01"}
	metadata("pool-02")["labels"] = map[string]any{"kustomize.toolkit.fluxcd.io/name": "nodes", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}
	got = plumbline(t, "owners", "--kubeconfig", kubeconfig)
	if got.code != exitChanges {
		t.Errorf("two appliers: code %d: %s", got.code, got.err)
	}
	golden(t, "owners.table", got.out)
	if strings.Contains(got.out, "applies Karpenter's charts") {
		t.Errorf("a release of Helm's own reconciles nothing:\n%s", got.out)
	}
	got = plumbline(t, "owners", "-o", "json", "--kubeconfig", kubeconfig)
	golden(t, "owners.json", got.out)
	crd := s.objects["/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nodepools.karpenter.sh"].(map[string]any)["metadata"].(map[string]any)
	crd["labels"] = map[string]any{"helm.toolkit.fluxcd.io/name": "karpenter-crd", "helm.toolkit.fluxcd.io/namespace": "flux-system"}
	got = plumbline(t, "owners", "--kubeconfig", kubeconfig)
	if want := "Flux's HelmRelease flux-system/karpenter-crd applies Karpenter's charts: to keep it that way, set management: External"; strings.Count(got.out, want) != 1 {
		t.Errorf("once it should say %q:\n%s", want, got.out)
	}
}

// TestWaysOutKeepNodes: each tool keeps the object because of the annotation that this tool reads. Helm deletes what is
// removed from a chart, regardless of Flux's annotation for Kustomizations.
func TestWaysOutKeepNodes(t *testing.T) {
	for kind, way := range map[string]string{
		"Kustomization":    "plumbline adopt --from flux NodePool/a",
		"Application":      "plumbline adopt --from argocd NodePool/a",
		"HelmRelease":      "helm.sh/resource-policy: keep",
		owners.ReleaseKind: "helm.sh/resource-policy: keep",
		"":                 "without deleting it",
	} {
		got := conflictOptions("NodePool/a", owners.Owner{Tool: "a tool", Kind: kind, Name: "nodes"})
		if len(got) != 3 {
			t.Fatalf("%s: the ways are %q, want three", kind, got)
		}
		for i, says := range []string{way, "leave it to ", "management: External"} {
			if !strings.Contains(got[i], says) {
				t.Errorf("%s: %q does not name %s", kind, got[i], says)
			}
		}
	}
}
