package desired

import (
	"context"
	"fmt"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
)

// signedCharts are charts whose signatures were verified, and by the keys of which
// Secret.
type signedCharts struct {
	ref             charts.Ref
	crd, controller string
	secret          string
}

// verifyCharts checks that the charts have the signatures that the NodeSync asks for.
// What has them is not verified again in this process, so that a pass reads no Secret.
func (s *Step) verifyCharts(ctx context.Context, ref charts.Ref, resolved *charts.Charts, access charts.Access) error {
	if s.Sync.Spec.Charts == nil || s.Sync.Spec.Charts.Verify == nil {
		return nil
	}
	name := s.Sync.Spec.Charts.Verify.SecretRef.Name
	ref.InForce = charts.Digests{}
	these := signedCharts{ref: ref, crd: resolved.CRDDigest, controller: resolved.Digest, secret: name}
	if s.Memory.signed == these {
		return nil
	}
	by, err := s.chartSigners(ctx, name)
	if err != nil {
		return err
	}
	if err := s.Store.Verify(ctx, ref, resolved, access, by); err != nil {
		return err
	}
	s.Memory.signed = these
	return nil
}

func (s *Step) chartSigners(ctx context.Context, name string) (charts.Signers, error) {
	fail := func(err error) (charts.Signers, error) {
		err = fmt.Errorf("read secret %s, which spec.charts.verify names: %w", name, err)
		return charts.Signers{}, fault.Unverifiable(err)
	}
	secret, err := s.Secret(ctx, name)
	if err != nil {
		return fail(err)
	}
	if err := grant.CheckNodeSync(secret, s.Sync.Name); err != nil {
		return charts.Signers{}, err
	}
	by, err := charts.SignersFromSecret(name, secret.Data)
	if err != nil {
		return fail(err)
	}
	return by, nil
}
