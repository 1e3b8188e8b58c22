package release

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/chartstest"
)

func TestNoCRDIsDropped(t *testing.T) {
	b := newBed(t)
	b.both()
	fewer := chartstest.Archive(t, charts.CRDChart, "1.15.0", map[string]string{"nodepools.yaml": chartstest.CRDTemplate("nodepools", "NodePool")})
	b.charts = stored(b.T, "1.15.0", fewer, chartstest.Controller(t, "1.15.0"))
	_, err := b.crds()
	var dropped *DroppedCRDsError
	if !errors.As(err, &dropped) {
		t.Fatalf("EnsureCRDs() = %v, want a DroppedCRDsError", err)
	}
	if diff := cmp.Diff([]string{"nodeclaims.karpenter.sh"}, dropped.Names); diff != "" {
		t.Errorf("dropped (-want +got):\n%s", diff)
	}
	if writes := b.api.takeWrites(); len(writes) > 0 {
		t.Errorf("it wrote %v", writes)
	}
}

func TestCRDsThatWouldGoWithTheirReleaseAreRefused(t *testing.T) {
	b := newBed(t)
	bare := chartstest.Archive(t, charts.CRDChart, "1.0.8", map[string]string{
		"nodepools.yaml": "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: nodepools.karpenter.sh}\nspec: {group: karpenter.sh, names: {plural: nodepools}}\n",
	})
	b.charts = stored(b.T, "1.0.8", bare, chartstest.Controller(t, "1.0.8"))
	_, err := b.crds()
	var unprotected *UnprotectedCRDsError
	if !errors.As(err, &unprotected) {
		t.Errorf("EnsureCRDs() = %v, want an UnprotectedCRDsError", err)
	}
	if writes := b.api.takeWrites(); len(writes) > 0 {
		t.Errorf("it wrote %v", writes)
	}
}
