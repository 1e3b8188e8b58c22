package install

import (
	"context"
	"errors"
	"fmt"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render"
)

// Changes says whether a change of the charts would begin.
func (s *Step) Changes() bool {
	if s.Karpenter.Management == render.External || s.Charts == nil || s.k() == nil {
		return false
	}
	identity, err := s.Identity()
	return err == nil && upgrade.Begins(*s.k(), identity)
}

// goesBack says why no change of the charts begins for a revision that is, or may be, older than
// what was applied; nil where it is not, or where there is none to begin. With two replicas of a
// mirror, one of which lags behind, charts would be changed to and fro, until Helm's history has
// no release left to go back to.
func (s *Step) goesBack(identity string) error {
	k := s.k()
	if !s.Older || !upgrade.Begins(*k, identity) {
		return nil
	}
	known := "Karpenter " + k.Version + " stays in force"
	if t := k.Target; t != nil && upgrade.UnderWay(*t) {
		known = fmt.Sprintf("a change to Karpenter %s is under way", t.Version)
	}
	return fault.Held(fmt.Errorf("HEAD is older than what was applied, or may be (the branch was set back, or a mirror lags behind), and its charts differ: %s; push a newer commit", known))
}

// finishNewer takes the steps of a change that a newer revision has begun, as far as that goes
// without its charts: the controller comes up, or the release before it comes back. held is the
// outcome.
func (s *Step) finishNewer(held error) func(context.Context, upgrade.Action, *upgrade.Seen) (bool, error) {
	return func(ctx context.Context, action upgrade.Action, seen *upgrade.Seen) (again bool, err error) {
		switch action.(type) {
		case upgrade.Diagnose, upgrade.FindEarlier, upgrade.RollBack:
			return s.takeChartStep(ctx, action, seen)
		case upgrade.InstallController:
			if seen.Controller, err = s.rolledOutAs(ctx, *s.k().Target); err != nil || seen.Controller != nil {
				return err == nil, err
			}
		case upgrade.Record, upgrade.Wait, upgrade.Stall, upgrade.Fail:
			if err := s.pauseCharts(action); err != nil {
				return false, err
			}
		}
		return false, held
	}
}

// rolledOutAs is the release of a change that has been written; nil where it is another one.
func (s *Step) rolledOutAs(ctx context.Context, t v1alpha1.ChartTarget) (*v1alpha1.ReleaseStatus, error) {
	state, err := s.Helm.State(ctx, s.k().Namespace)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read the Helm release %s", charts.ControllerChart), err)
	}
	if t.Step != v1alpha1.ChartRollingOut || !state.Controller.Installed(t.Version) {
		return nil, nil
	}
	return &v1alpha1.ReleaseStatus{Revision: int32(state.Controller.Revision), Version: t.Version}, nil
}
