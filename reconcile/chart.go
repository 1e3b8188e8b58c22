package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/install"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render"
)

// ChartStore resolves a version to its two charts.
type ChartStore interface {
	Resolve(ctx context.Context, ref charts.Ref, access charts.Access) (*charts.Charts, error)
	// Verify checks that both charts are signed by one of the signers.
	Verify(ctx context.Context, ref charts.Ref, c *charts.Charts, access charts.Access, by charts.Signers) error
}

// resolveCharts finds the charts of the version in Git and the schema that
// their CRDs give. Where Git has no version it is that of the live CRDs.
func (p *pass) resolveCharts(ctx context.Context) error {
	if p.karpenter.Version == "" {
		return p.resolveLive(ctx)
	}
	if err := p.mergeValues(ctx); err != nil {
		return p.withoutCharts(ctx, err)
	}
	p.warnOfEverything()
	unknown, err := p.checkRequest()
	if err != nil {
		return p.withoutCharts(ctx, err)
	}
	resolved, err := p.pullCharts(ctx)
	if err == nil {
		err = p.checkFound(resolved, unknown)
	}
	if err != nil {
		return p.withoutCharts(ctx, err)
	}
	p.charts = resolved
	step := p.chartStep()
	p.notUpgraded, err = step.Refused()
	p.Join(step.Findings)
	if err != nil {
		return err
	}
	if p.notUpgraded != nil {
		return p.resolveInForce(ctx)
	}
	p.schemaIdentity = resolved.CRDDigest
	if p.schema, err = p.schemas.Get(p.schemaIdentity, func() ([]*apiextensionsv1.CustomResourceDefinition, error) { return resolved.CRDs(ctx) }); err != nil || !upgrade.CRDsAhead(p.sync.Status.Karpenter, p.karpenter.Version) {
		return err
	}
	established, err := p.view.Established(ctx)
	if err != nil || !established.Ready {
		return err // one that is gone is brought again
	}
	// The API server goes by its own CRDs; an older controller knows less.
	p.older = p.schema
	return p.resolveLive(ctx)
}

// pullCharts asks the store for the charts of the version in Git. What fails is
// left alone for a while: a registry can take as long as a pass may. What the try
// was made with makes another one due at once, and so does who asks for it.
func (p *pass) pullCharts(ctx context.Context) (*charts.Charts, error) {
	repository, inside, err := p.karpenter.ChartRepository(p.sync.Spec.Path)
	if err != nil {
		return nil, err
	}
	try := pull{
		ref: charts.Ref{
			Repository: repository,
			Version:    p.karpenter.Version,
			Digests:    charts.Digests{CRD: p.karpenter.Digests.CRD, Controller: p.karpenter.Digests.Controller},
		},
		by: p.memory.fetchedFor,
	}
	if inside {
		try.revision = p.snapshot.Revision // another may have the files
	}
	failed := &p.memory.unpulled
	if failed.pull == try && !finding.Due(p.now, failed.at, p.retryInterval()) {
		p.WakeBy(failed.at.Add(p.retryInterval()))
		return nil, failed.err
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout())
	defer cancel()
	access := charts.Access{Keys: p.openHost, Files: p.files}
	resolved, err := p.Charts.Resolve(ctx, try.ref, access)
	if err == nil {
		err = p.verifyCharts(ctx, try.ref, resolved, access)
	}
	*failed = unpulled{}
	if err != nil {
		*failed = unpulled{pull: try, at: p.now, err: err}
	}
	return resolved, err
}

// pull is what a try to have the charts is made with.
type pull struct {
	ref charts.Ref
	// by is the NodeSync's generation, and who asked for a pass.
	by fetchKey
	// revision that has the charts in it; empty where they come from elsewhere.
	revision string
}

// unpulled is a pull that failed, and when.
type unpulled struct {
	pull
	at  time.Time
	err error
}

// withoutCharts goes on where the charts are unavailable and a release is in force:
// its CRDs in the cluster are the schema, and the releases stay as they are. That is
// the version in Git, with CRDs of it or newer ones, or the one that the change was
// to replace. Where none is, the error stands. Of another tool's charts only the CRDs
// are looked at.
func (p *pass) withoutCharts(ctx context.Context, err error) error {
	if p.karpenter.Management == render.External {
		p.unpulled = err
		return p.resolveLive(ctx)
	}
	k := p.sync.Status.Karpenter
	if k == nil {
		return err
	}
	state, unread := p.Install.State(ctx, p.karpenter.Namespace)
	if unread != nil {
		return errors.Join(err, unread)
	}
	if releasedAs(state, p.karpenter.Version) {
		p.unpulled = err
		return p.resolveLive(ctx)
	}
	if version := upgrade.InForce(*k); version == "" || !releasedAs(state, version) {
		return err
	}
	p.unpulled = err
	return p.resolveInForce(ctx)
}

// releasedAs says whether a version's release is deployed, over its CRDs or newer ones.
func releasedAs(state release.State, version string) bool {
	crds := state.CRDs.Installed(version) || state.CRDs.Ahead(version)
	return crds && state.Controller.Installed(version)
}

// resolveLive takes the schema of the live CRDs. The cache tells which they are
// and holds no schema, so that they are read from the API server once.
func (p *pass) resolveLive(ctx context.Context) error {
	cached, err := p.readCRDs(ctx, p.view.CachedCRDs)
	if err != nil {
		return err
	}
	p.schemaIdentity = cluster.Generations(cached)
	p.schema, err = p.schemas.Get(p.schemaIdentity, func() ([]*apiextensionsv1.CustomResourceDefinition, error) {
		crds, err := p.readCRDs(ctx, p.view.CRDs)
		if err == nil && cluster.Generations(crds) != p.schemaIdentity {
			err = &fault.Error{Class: fault.Superseded, Reason: v1alpha1.ReasonWaiting, Err: errors.New("the CRDs have changed while they were read: they are read again")}
		}
		return crds, err
	})
	return err
}

// readCRDs reads the CRDs of the kinds that are ours. That there is none is no
// failure: whoever manages the charts has not got to it yet.
func (p *pass) readCRDs(ctx context.Context, read func(context.Context, []string) ([]*apiextensionsv1.CustomResourceDefinition, error)) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	var names []string
	for _, kind := range render.Kinds() {
		names = append(names, kind.CRD)
	}
	crds, err := read(ctx, names)
	if err != nil || len(crds) == len(names) {
		return crds, err
	}
	for _, name := range names {
		if !slices.ContainsFunc(crds, func(crd *apiextensionsv1.CustomResourceDefinition) bool { return crd.Name == name }) {
			err = p.lacks(name)
			break
		}
	}
	return nil, &fault.Error{Class: fault.Waiting, Reason: v1alpha1.ReasonWaiting, Err: err}
}

// lacks says who brings a CRD that is not there.
func (p *pass) lacks(crd string) error {
	switch {
	case p.karpenter.Management != render.Managed:
	case p.unpulled != nil:
		return fmt.Errorf("waiting for the schema: crd %s is gone, and its chart brings it again: %w", crd, p.unpulled)
	default:
		return fmt.Errorf("waiting for the schema: crd %s is gone, and is reinstalled with the next change of the charts that is made", crd)
	}
	return fmt.Errorf("waiting for the schema: crd %s is not installed yet; %s", crd, install.Theirs)
}
