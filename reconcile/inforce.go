package reconcile

import (
	"context"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/plumbline-dev/plumbline/provision/allowance"
	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// A change of the charts that is refused, held or rolled back leaves a release in
// force. The pass notes why, and definitions, drift correction and removals go on
// under that release: the live CRDs are the schema then.

// servedSchema is the schema of the version in force, for CRDs that are newer.
type servedSchema struct {
	version string
	at      time.Time
	schema  *schema.Validator
}

// resolveInForce takes the schema of the live CRDs, and that of the version in force
// as well where the CRDs are newer: what its controller cannot read is not written.
func (p *pass) resolveInForce(ctx context.Context) error {
	k := p.sync.Status.Karpenter
	p.serving, p.older = upgrade.InForce(*k), nil
	if err := p.resolveLive(ctx); err != nil {
		return p.withheld(err)
	}
	if k.CRDs == nil || !charts.Ahead(k.CRDs.Version, p.serving) {
		return nil
	}
	p.older = p.schemaInForce(ctx)
	return nil
}

// schemaInForce is the schema of the version in force, from its charts. Where they
// are unavailable it is nil, as where the registry is away: the live CRDs decide. It
// is asked for again after a while.
func (p *pass) schemaInForce(ctx context.Context) *schema.Validator {
	last := &p.memory.served
	if last.version == p.serving && (last.schema != nil || !finding.Due(p.now, last.at, p.retryInterval())) {
		return last.schema
	}
	found, err := p.pullSchema(ctx, p.serving)
	*last = servedSchema{version: p.serving, at: p.now, schema: found}
	if err != nil {
		p.Warn("Warning", fmt.Sprintf("definitions are checked against the CRDs in the cluster and not against those of Karpenter %s, which is in force: %v", p.serving, err))
	}
	return found
}

// pullSchema makes the schema of a version out of its charts.
func (p *pass) pullSchema(ctx context.Context, version string) (*schema.Validator, error) {
	repository, _, err := p.karpenter.ChartRepository(p.sync.Spec.Path)
	if err != nil {
		return nil, err
	}
	if err := allowance.Refuse(p.allowance().Check(allowance.Request{Repository: p.karpenter.Repository})); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout())
	defer cancel()
	ref, access := charts.Ref{Repository: repository, Version: version}, charts.Access{Keys: p.openHost, Files: p.files}
	resolved, err := p.Charts.Resolve(ctx, ref, access)
	if err == nil {
		err = p.verifyCharts(ctx, ref, resolved, access)
	}
	if err != nil {
		return nil, err
	}
	return p.schemas.Get(resolved.CRDDigest, func() ([]*apiextensionsv1.CustomResourceDefinition, error) { return resolved.CRDs(ctx) })
}

// withheld says of definitions that cannot go on under the version in force what
// they wait for: the change of the charts that is not made.
func (p *pass) withheld(err error) error {
	why := p.notUpgraded
	if why == nil && p.serving != "" {
		why = p.unpulled
	}
	if why == nil || err == nil {
		return err
	}
	switch fault.Classify(err).Class {
	case fault.Terminal, fault.Waiting:
		return fmt.Errorf("%w; Karpenter %s stays in force, and under it definitions wait: %s", why, p.serving, err.Error())
	case fault.Transient, fault.Superseded:
	}
	return err
}

// inForceWords say why the charts are not changed, and what goes on meanwhile.
func (p *pass) inForceWords() error {
	return fmt.Errorf("%w; definitions go on under Karpenter %s, which is in force", p.notUpgraded, p.serving)
}
