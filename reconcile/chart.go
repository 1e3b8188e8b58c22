package reconcile

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/render"
)

// ChartStore resolves a version to its two charts.
type ChartStore interface {
	Resolve(ctx context.Context, ref charts.Ref, credentials charts.Credentials) (*charts.Charts, error)
}

// ChartInstaller installs them.
type ChartInstaller interface {
	EnsureCRDs(ctx context.Context, c *charts.Charts, into charts.Installation) (charts.Result, error)
	EnsureController(ctx context.Context, c *charts.Charts, into charts.Installation) (charts.Result, error)
}

// resolveCharts finds the charts of the version in Git and the schema that
// their CRDs give; with management External, the schema of the live CRDs.
func (p *pass) resolveCharts(ctx context.Context) error {
	if p.karpenter.Management == render.External {
		return p.resolveLive(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout())
	defer cancel()
	resolved, err := p.Charts.Resolve(ctx, charts.Ref{Repository: p.karpenter.Repository, Version: p.karpenter.Version}, charts.Credentials{})
	if err != nil {
		return err
	}
	p.charts = resolved
	p.schemaIdentity = resolved.CRDDigest
	p.schema, err = p.schemas.get(p.schemaIdentity, resolved.CRDs)
	return err
}

// resolveLive reads the CRDs from the API server. None there is no error:
// whoever manages the charts has not got to it yet.
func (p *pass) resolveLive(ctx context.Context) error {
	var crds []*apiextensionsv1.CustomResourceDefinition
	identity := ""
	for _, kind := range render.Kinds() {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		err := p.Uncached.Get(ctx, client.ObjectKey{Name: kind.CRD}, crd)
		if apierrors.IsNotFound(err) {
			return &fault.Error{Class: fault.Waiting, Reason: v1alpha1.ReasonWaiting, Err: fmt.Errorf("waiting for the schema: crd %s is not installed yet; management is External, so that is for whoever installs Karpenter", kind.CRD)}
		}
		if err != nil {
			return fmt.Errorf("read crd %s: %w", kind.CRD, err)
		}
		crds = append(crds, crd)
		identity += fmt.Sprintf("%s/%d ", crd.UID, crd.Generation)
	}
	var err error
	p.schemaIdentity = identity
	p.schema, err = p.schemas.get(p.schemaIdentity, func() ([]*apiextensionsv1.CustomResourceDefinition, error) { return crds, nil })
	return err
}
