package owners

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOf(t *testing.T) {
	helms := map[string]string{"app.kubernetes.io/managed-by": "Helm"}
	release := map[string]string{"meta.helm.sh/release-name": "karpenter", "meta.helm.sh/release-namespace": "kube-system"}
	wrote := func(manager string, minute int, subresource string) metav1.ManagedFieldsEntry {
		at := metav1.NewTime(time.Date(2026, 1, 2, 3, minute, 0, 0, time.UTC))
		return metav1.ManagedFieldsEntry{Manager: manager, Time: &at, Subresource: subresource}
	}
	fields := func(entry metav1.ManagedFieldsEntry, owned string) metav1.ManagedFieldsEntry {
		entry.FieldsV1 = metav1.NewFieldsV1(owned)
		return entry
	}
	flux := map[string]string{"helm.toolkit.fluxcd.io/name": "karpenter", "helm.toolkit.fluxcd.io/namespace": "flux-system", "app.kubernetes.io/managed-by": "Helm"}
	tests := map[string]struct {
		object metav1.ObjectMeta
		want   Owner
		says   string
	}{
		"Flux's HelmRelease, which is Helm's as well": {
			metav1.ObjectMeta{Labels: flux, Annotations: release},
			Owner{Tool: "Flux", Kind: "HelmRelease", Namespace: "flux-system", Name: "karpenter"},
			"Flux's HelmRelease flux-system/karpenter",
		},
		"Flux's Kustomization": {
			metav1.ObjectMeta{Labels: map[string]string{"kustomize.toolkit.fluxcd.io/name": "crds", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}},
			Owner{Tool: "Flux", Kind: "Kustomization", Namespace: "flux-system", Name: "crds"},
			"Flux's Kustomization flux-system/crds",
		},
		"Argo CD, by its annotation": {
			metav1.ObjectMeta{Annotations: map[string]string{"argocd.argoproj.io/tracking-id": "karpenter:apps/Deployment:kube-system/karpenter"}},
			Owner{Tool: "Argo CD", Kind: "Application", Name: "karpenter"},
			"Argo CD's Application karpenter",
		},
		"Argo CD, an Application elsewhere": {
			metav1.ObjectMeta{Annotations: map[string]string{"argocd.argoproj.io/tracking-id": "team-a_karpenter:apps/Deployment:kube-system/karpenter"}},
			Owner{Tool: "Argo CD", Kind: "Application", Namespace: "team-a", Name: "karpenter"},
			"Argo CD's Application team-a/karpenter",
		},
		"Argo CD, by its own label": {
			metav1.ObjectMeta{Labels: map[string]string{"argocd.argoproj.io/instance": "nodes"}},
			Owner{Tool: "Argo CD", Kind: "Application", Name: "nodes"},
			"Argo CD's Application nodes",
		},
		"Argo CD, by the chart's own label and who wrote": {
			metav1.ObjectMeta{Labels: map[string]string{"app.kubernetes.io/instance": "nodes"}, ManagedFields: []metav1.ManagedFieldsEntry{wrote("argocd-controller", 1, "")}},
			Owner{Tool: "Argo CD", Kind: "Application", Name: "nodes"},
			"Argo CD's Application nodes",
		},
		"the chart's own label alone": {
			metav1.ObjectMeta{Labels: map[string]string{"app.kubernetes.io/instance": "karpenter", "app.kubernetes.io/managed-by": "Helm"}, Annotations: release},
			Owner{Kind: "Release", Namespace: "kube-system", Name: "karpenter"},
			"Helm release kube-system/karpenter",
		},
		"Helm, and Terraform through it": {
			metav1.ObjectMeta{Labels: helms, Annotations: release, ManagedFields: []metav1.ManagedFieldsEntry{wrote("terraform-provider-helm_v2", 1, "")}},
			Owner{Kind: "Release", Namespace: "kube-system", Name: "karpenter"},
			"Helm release kube-system/karpenter",
		},
		"kubectl, whatever the API server writes later": {
			metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{wrote("helm", 1, ""), wrote("kubectl-client-side-apply", 2, ""), wrote("kube-apiserver", 3, "status")}},
			Owner{Manager: "kubectl-client-side-apply"},
			"managed by kubectl-client-side-apply",
		},
		"kubectl, whatever Karpenter annotates later": {
			metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{
				fields(wrote("kubectl", 1, ""), `{"f:metadata":{"f:labels":{}},"f:spec":{"f:weight":{}}}`),
				fields(wrote("karpenter", 2, ""), `{"f:metadata":{"f:annotations":{"f:karpenter.sh/nodepool-hash":{}}}}`),
			}},
			Owner{Manager: "kubectl"},
			"managed by kubectl",
		},
		"nobody": {metav1.ObjectMeta{}, Owner{}, "managed by an unknown client"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := Of(&test.object)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Of (-want +got):\n%s", diff)
			}
			if got.String() != test.says {
				t.Errorf("it is called %q, want %q", got, test.says)
			}
		})
	}
}

// TestAll: every tool that applies an object is named once, by its most specific mark.
func TestAll(t *testing.T) {
	wrote := func(managers ...string) (entries []metav1.ManagedFieldsEntry) {
		for _, manager := range managers {
			entries = append(entries, metav1.ManagedFieldsEntry{Manager: manager})
		}
		return entries
	}
	kustomization := map[string]string{"kustomize.toolkit.fluxcd.io/name": "nodes", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}
	tests := map[string]struct {
		object metav1.ObjectMeta
		want   []string
	}{
		"nobody, and people": {metav1.ObjectMeta{ManagedFields: wrote("kubectl-edit", "plumbline")}, nil},
		"Flux by its label, and by its manager as well": {
			metav1.ObjectMeta{Labels: kustomization, ManagedFields: wrote("kustomize-controller")},
			[]string{"Flux's Kustomization flux-system/nodes"},
		},
		"Flux by its manager": {metav1.ObjectMeta{ManagedFields: wrote("kustomize-controller", "flux")}, []string{"Flux (field manager kustomize-controller)"}},
		"two tools that fight": {
			metav1.ObjectMeta{
				Labels: kustomization, Annotations: map[string]string{"argocd.argoproj.io/tracking-id": "nodes:karpenter.sh/NodePool:/a"},
				ManagedFields: wrote("argocd-controller", "Terraform"),
			},
			[]string{"Flux's Kustomization flux-system/nodes", "Argo CD's Application nodes", "Terraform (field manager Terraform)"},
		},
		"Helm, and Terraform through it": {
			metav1.ObjectMeta{
				Labels:        map[string]string{"app.kubernetes.io/managed-by": "Helm"},
				Annotations:   map[string]string{"meta.helm.sh/release-name": "karpenter", "meta.helm.sh/release-namespace": "kube-system"},
				ManagedFields: wrote("helm", "terraform-provider-helm_v2"),
			},
			[]string{"Helm release kube-system/karpenter", "Terraform (field manager terraform-provider-helm_v2)"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, owner := range All(&test.object) {
				got = append(got, owner.String())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("All (-want +got):\n%s", diff)
			}
		})
	}
}
