package install

import (
	"context"
	"errors"
	"fmt"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render"
)

// WhyNot says why the charts are not changed to what Git has, as far as that shows without a
// write: the gates, and of the rehearsal what the NodeSync does not allow, which is found without
// having the API server try it. Nil where they are, or where there is nothing to change. It writes
// only to Sync.
func (s *Step) WhyNot(ctx context.Context) error {
	if s.Karpenter.Management == render.External {
		_, err := s.Run(ctx)
		return err
	}
	if err := s.sameClusterName(ctx); err != nil || s.Charts == nil {
		return err
	}
	identity, err := s.Identity()
	if err != nil {
		return err
	}
	if held := s.goesBack(identity); held != nil || s.k().Identity == identity || s.underWay(identity) {
		return held
	}
	frozen := s.frozen(ctx, identity)
	if frozen != nil && !IsFrozen(frozen) {
		return frozen
	}
	seen := upgrade.Seen{}
	if err := s.weigh(ctx, &seen); err != nil {
		return err
	}
	if seen.NoWayBack != "" && !s.approved() {
		return fault.Held(errors.New(seen.NoWayBack))
	}
	if err := s.Helm.Permitted(ctx, s.Charts, s.installation()); err != nil {
		return err
	}
	return frozen
}

// Change says what is done with the charts of a commit, where nothing keeps it from being done;
// empty where they are as Git says.
func (s *Step) Change() (string, error) {
	if s.Karpenter.Management == render.External || s.Charts == nil {
		return "", nil
	}
	identity, err := s.Identity()
	k := s.k()
	switch {
	case err != nil || k.Identity == identity:
		return "", err
	case k.Identity == "":
		return fmt.Sprintf("Karpenter %s is installed: chart karpenter-crd, then chart karpenter", s.Karpenter.Version), nil
	case k.Version != s.Karpenter.Version:
		return fmt.Sprintf("Karpenter %s is upgraded to %s: chart karpenter-crd, then chart karpenter", k.Version, s.Karpenter.Version), nil
	}
	return fmt.Sprintf("the charts of Karpenter %s are upgraded: their values or their content differ from what is installed, and the controller may be rolled out again", k.Version), nil
}

// underWay says that a change to what Git has is past its gates.
func (s *Step) underWay(identity string) bool {
	t := s.k().Target
	return t != nil && t.Identity == identity && t.Step != v1alpha1.ChartChecking
}
