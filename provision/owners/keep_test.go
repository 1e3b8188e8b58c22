package owners_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/provision/owners"
)

// TestMark: each tool's own annotation, and for Argo CD the words of its value, among others.
func TestMark(t *testing.T) {
	for name, test := range map[string]struct {
		kind, value string
		in          bool
		with        string
		without     string
	}{
		"Flux, without":           {"Kustomization", "", false, "disabled", ""},
		"Flux, with":              {"Kustomization", "disabled", true, "disabled", ""},
		"Argo CD, without":        {"Application", "", false, "Prune=false,Delete=false", ""},
		"Argo CD, half of it":     {"Application", "Prune=false", false, "Prune=false,Delete=false", ""},
		"Argo CD, among others":   {"Application", "ServerSideApply=true, Delete=false,Prune=false", true, "ServerSideApply=true,Prune=false,Delete=false", "ServerSideApply=true"},
		"Argo CD, another option": {"Application", "Prune=confirm", false, "Prune=confirm,Prune=false,Delete=false", "Prune=confirm"},
	} {
		t.Run(name, func(t *testing.T) {
			mark, ok := owners.Owner{Kind: test.kind}.Mark()
			if !ok || mark.In(test.value) != test.in || mark.With(test.value) != test.with || mark.Without(test.value) != test.without {
				t.Errorf("in %t, with %q, without %q", mark.In(test.value), mark.With(test.value), mark.Without(test.value))
			}
			object := &metav1.ObjectMeta{Annotations: map[string]string{mark.Key: test.value}}
			if kept, ok := owners.Kept(object); ok != test.in || ok && kept.Key != mark.Key {
				t.Errorf("kept by %v %t", kept, ok)
			}
		})
	}
	if _, ok := (owners.Owner{Tool: "Terraform"}).Mark(); ok {
		t.Error("Terraform has a mark")
	}
}

// TestLeft: the marks by which an object's owner is recognised, and none of other owners.
func TestLeft(t *testing.T) {
	object := &metav1.ObjectMeta{
		Labels: map[string]string{
			"kustomize.toolkit.fluxcd.io/name": "apps", "kustomize.toolkit.fluxcd.io/namespace": "flux-system",
			"app.kubernetes.io/instance": "karpenter", "argocd.argoproj.io/instance": "prod",
		},
		Annotations: map[string]string{"argocd.argoproj.io/tracking-id": "prod:karpenter.sh/NodePool:/a"},
	}
	for name, test := range map[string]struct {
		owner               owners.Owner
		labels, annotations int
	}{
		"Flux":                  {owners.Owner{Kind: "Kustomization", Name: "apps"}, 2, 0},
		"Argo CD":               {owners.Owner{Kind: "Application", Name: "prod"}, 1, 1},
		"Argo CD, by its label": {owners.Owner{Kind: "Application", Namespace: "argocd", Name: "karpenter"}, 1, 1},
		"a HelmRelease":         {owners.Owner{Kind: "HelmRelease", Name: "apps"}, 0, 0},
	} {
		labels, annotations := test.owner.Left(object)
		if len(labels) != test.labels || len(annotations) != test.annotations {
			t.Errorf("%s: %q and %q", name, labels, annotations)
		}
	}
}
