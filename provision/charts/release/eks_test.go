package release

import (
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/chartstest"
)

// served makes a live CRD one that EKS keeps up to date.
func (b *bed) served(name string) {
	b.Helper()
	path := crdsPath + "/" + name
	object := b.api.get(path)
	if object == nil {
		object = map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"metadata": map[string]any{"name": name}, "spec": map[string]any{"scope": "OfEKS"},
		}
	}
	labels, _ := object["metadata"].(map[string]any)["labels"].(map[string]any)
	if labels == nil {
		labels = map[string]any{}
	}
	labels["app.kubernetes.io/managed-by"] = "eks"
	object["metadata"].(map[string]any)["labels"] = labels
	b.api.put(path, object)
}

// untouched checks that nothing was written to a CRD.
func (b *bed) untouched(name string) {
	b.Helper()
	for _, write := range b.api.takeWrites() {
		if strings.Contains(write, name) {
			b.Errorf("written: %s", write)
		}
	}
}

// TestCRDsOfEKSAreLeft: a CRD that EKS keeps is neither adopted nor written, the others are installed from the chart, and the
// release contains only these.
func TestCRDsOfEKSAreLeft(t *testing.T) {
	const pools, claims = "nodepools.karpenter.sh", "nodeclaims.karpenter.sh"
	for name, adopt := range map[string]bool{"without adopt": false, "with adopt": true} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.served(pools)
			b.want.Adopt = adopt
			if err := b.installer.Rehearse(b.Context(), b.charts, b.want); err != nil {
				t.Fatal(err)
			}
			if result, err := b.crds(); err != nil || result.Step != Install {
				t.Fatalf("EnsureCRDs() = %+v, %v", result, err)
			}
			b.untouched(pools)
			if b.api.get(crdsPath+"/"+claims) == nil {
				t.Errorf("crd %s was not installed", claims)
			}
			field(b.api.get(crdsPath+"/"+pools), "spec")["scope"] = "ChangedByEKS"
			if result, err := b.crds(); err != nil || result.Changed {
				t.Errorf("again = %+v, %v; want nothing done", result, err)
			}
		})
	}
}

// TestEKSTakesOverACRD: once EKS keeps a CRD of the release, the release goes on without it, and the CRD stays; when EKS
// no longer keeps it, the release has it again.
func TestEKSTakesOverACRD(t *testing.T) {
	const pools = "nodepools.karpenter.sh"
	b := newBed(t)
	b.both()
	b.served(pools)
	field(b.api.get(crdsPath+"/"+pools), "spec")["scope"] = "OfEKS"
	result, err := b.crds()
	if err != nil || result.Step != Upgrade || result.Revision != 2 {
		t.Fatalf("EnsureCRDs() = %+v, %v", result, err)
	}
	b.untouched(pools)
	if result, err := b.crds(); err != nil || result.Changed {
		t.Errorf("again = %+v, %v; want nothing done", result, err)
	}
	b.charts = stored(t, "1.15.0", chartstest.CRDs(t, "1.15.0"), chartstest.Controller(t, "1.15.0"))
	if result, err := b.crds(); err != nil || result.Step != Upgrade {
		t.Errorf("upgrade = %+v, %v", result, err)
	}
	b.untouched(pools)
	if got := field(b.api.get(crdsPath+"/"+pools), "spec")["scope"]; got != "OfEKS" {
		t.Errorf("crd %s has scope %v", pools, got)
	}
	if err := b.installer.Uninstall(b.Context(), "kube-system", charts.CRDChart); err != nil {
		t.Fatal(err)
	}
	b.untouched(pools)

	b = newBed(t)
	b.served(pools)
	if _, err := b.crds(); err != nil {
		t.Fatal(err)
	}
	b.api.mu.Lock()
	delete(b.api.objects, crdsPath+"/"+pools)
	b.api.mu.Unlock()
	if result, err := b.crds(); err != nil || result.Step != Upgrade || b.api.get(crdsPath+"/"+pools) == nil {
		t.Errorf("without EKS's = %+v, %v", result, err)
	}
}
