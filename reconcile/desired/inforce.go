package desired

import (
	"context"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/plumbline-dev/plumbline/provision/allowance"
	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// servedSchema is the schema of the version in force, for CRDs that are newer.
type servedSchema struct {
	version string
	at      time.Time
	schema  *schema.Validator
}

// TakeSchemaInForce takes the schema of the live CRDs, and that of the version in force
// as well where the CRDs are newer: what its controller cannot read is not written.
func (s *Step) TakeSchemaInForce(ctx context.Context) error {
	k := s.Sync.Status.Karpenter
	s.Serving, s.Older = upgrade.InForce(*k), nil
	if err := s.resolveLive(ctx); err != nil {
		return s.withheld(err)
	}
	if k.CRDs == nil || !charts.Ahead(k.CRDs.Version, s.Serving) {
		return nil
	}
	s.Older = s.schemaInForce(ctx)
	return nil
}

// schemaInForce is the schema of the version in force, from its charts. Where they
// are unavailable it is nil, as where the registry is away: the live CRDs decide. It
// is asked for again after a while.
func (s *Step) schemaInForce(ctx context.Context) *schema.Validator {
	last := &s.Memory.served
	if last.version == s.Serving && (last.schema != nil || !finding.Due(s.Now, last.at, s.Retry)) {
		return last.schema
	}
	found, err := s.pullSchema(ctx, s.Serving)
	*last = servedSchema{version: s.Serving, at: s.Now, schema: found}
	if err != nil {
		s.Warn(v1alpha1.ReasonWarning, fmt.Sprintf("definitions are checked against the CRDs in the cluster and not against those of Karpenter %s, which is in force: %v", s.Serving, err))
	}
	return found
}

// pullSchema makes the schema of a version out of its charts.
func (s *Step) pullSchema(ctx context.Context, version string) (*schema.Validator, error) {
	repository, _, err := s.Karpenter.ChartRepository(s.Sync.Spec.Path)
	if err != nil {
		return nil, err
	}
	allow, request := AllowanceOf(s.Sync), allowance.Request{Repository: s.Karpenter.Repository}
	if err := allowance.Refuse(allow.Check(request)); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	ref := charts.Ref{Repository: repository, Version: version, InForce: inForce(s.Sync.Status.Karpenter, repository, version)}
	access := charts.Access{Keys: s.openHost, Files: s.Files}
	resolved, err := s.Store.Resolve(ctx, ref, access)
	if err == nil {
		err = allowance.Refuse(allow.CheckDigests(request, resolved.CRDDigest, resolved.Digest))
	}
	if err == nil {
		err = s.verifyCharts(ctx, ref, resolved, access)
	}
	if err == nil {
		err = s.checkCRDs(ctx, resolved)
	}
	if err != nil {
		return nil, err
	}
	return s.Schemas.Get(resolved.CRDDigest, func() ([]*apiextensionsv1.CustomResourceDefinition, error) { return resolved.CRDs(ctx) })
}

// withheld says of definitions that cannot go on under the version in force what
// they wait for: the change of the charts that is not made.
func (s *Step) withheld(err error) error {
	why := s.NotUpgraded
	if why == nil && s.Serving != "" {
		why = s.Unpulled
	}
	if why == nil || err == nil {
		return err
	}
	switch fault.Classify(err).Class {
	case fault.Terminal, fault.Waiting:
		return fmt.Errorf("%w; Karpenter %s stays in force, and under it definitions wait: %s", why, s.Serving, err.Error())
	case fault.Transient, fault.Superseded:
	}
	return err
}
