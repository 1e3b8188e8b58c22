package evaluate

import (
	"errors"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/karpenter"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade/installtest"
	"github.com/plumbline-dev/plumbline/render"
)

// TestChartsThatDoNotFitTheCRDsOfEKS are held, with the fields, until EKS has updated its CRDs. Both are compared once.
func TestChartsThatDoNotFitTheCRDsOfEKS(t *testing.T) {
	crd := installtest.PoolCRD("weight", "v1")
	crd.Labels = map[string]string{"app.kubernetes.io/managed-by": "eks"}
	b := newBed(t, desiredNodeSync(desiredUnchanged), crd)
	charts := installtest.ChartFolder(t, "1.15.0", installtest.PoolCRD("height", "v1"))
	charts.CRDDigest = "sha256:c"
	check := func() (*DesiredStep, error) {
		s := b.step()
		return s, s.checkServed(t.Context(), charts)
	}
	s, err := check()
	var unfit *karpenter.ServedCRDsError
	if !errors.As(err, &unfit) || !strings.Contains(err.Error(), "nodepools.karpenter.sh v1: spec.height") || len(s.ServedByEKS) != 1 {
		t.Fatalf("checkServed() = %v, kept by EKS: %v", err, s.ServedByEKS)
	}
	if f := fault.Classify(err); f.Class != fault.Terminal || f.Reason != v1alpha1.ReasonHeld {
		t.Errorf("it is %s %s", f.Class, f.Reason)
	}
	reads := b.uncached.reads
	if _, err := check(); !errors.As(err, &unfit) || b.uncached.reads != reads {
		t.Errorf("again = %v, with %d more reads", err, b.uncached.reads-reads)
	}
	s = b.step()
	s.Karpenter.Management = render.External
	if err := s.checkServed(t.Context(), charts); err != nil || len(s.ServedByEKS) > 0 {
		t.Errorf("with management External: %v", err)
	}

	update := &apiextensionsv1.CustomResourceDefinition{}
	if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(crd), update); err != nil {
		t.Fatal(err)
	}
	update.Spec, update.Generation = installtest.PoolCRD("height", "v1").Spec, 2
	if err := b.client.Update(t.Context(), update); err != nil {
		t.Fatal(err)
	}
	s, err = check()
	if err != nil {
		t.Fatalf("once EKS has updated it: %v", err)
	}
	s.Charts = charts
	if err := s.UseSchema(t.Context()); err != nil || !strings.HasPrefix(s.SchemaIdentity, "sha256:c") || s.SchemaIdentity == "sha256:c" {
		t.Errorf("UseSchema() = %v, with identity %q", err, s.SchemaIdentity)
	}
}

// TestChartsWithoutAutoMode: CRDs that the chart may write need not fit it.
func TestChartsWithoutAutoMode(t *testing.T) {
	b := newBed(t, desiredNodeSync(desiredUnchanged), installtest.PoolCRD("weight", "v1"))
	charts := installtest.ChartFolder(t, "1.15.0", installtest.PoolCRD("height", "v1"))
	charts.CRDDigest = "sha256:c"
	s := b.step()
	if err := s.checkServed(t.Context(), charts); err != nil || b.uncached.reads > 0 {
		t.Errorf("checkServed() = %v, with %d reads", err, b.uncached.reads)
	}
	s.Charts = charts
	if err := s.UseSchema(t.Context()); err != nil || s.SchemaIdentity != "sha256:c" {
		t.Errorf("UseSchema() = %v, with identity %q", err, s.SchemaIdentity)
	}
}
