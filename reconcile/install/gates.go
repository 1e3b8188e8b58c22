package install

import (
	"context"
	"errors"
	"time"

	"github.com/plumbline-dev/plumbline/provision/karpenter"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
)

// gated is what the gates said last of a change of the charts, and when.
type gated struct {
	change gatedChange
	at     time.Time
	// err refuses the change; noWayBack holds it.
	err       error
	noWayBack string
}

// gatedChange is what the gates have looked at: another one is looked at at once.
type gatedChange struct {
	identity, revision string
	// generation of the NodeSync: it may allow more by now.
	generation int64
}

// checkCharts finds out whether a change of the charts may be made, while nothing
// has moved. What is refused or held stands for a while: finding it out takes some
// hundred requests. What releases it counts at once.
func (s *Step) checkCharts(ctx context.Context, seen *upgrade.Seen) error {
	last := &s.Memory.gated
	identity := s.k().Target.Identity
	if s.gatesStand(identity) {
		s.WakeBy(last.at.Add(s.Retry))
		seen.Checked, seen.NoWayBack = last.err == nil, last.noWayBack
		return last.err
	}
	*last = gated{}
	err := s.passGates(ctx, seen)
	if err != nil || seen.NoWayBack != "" {
		*last = gated{change: s.changeGated(identity), at: s.Now, err: err, noWayBack: seen.NoWayBack}
		s.WakeBy(s.Now.Add(s.Retry))
	}
	if err == nil {
		seen.Claims, err = s.View.Claims(ctx)
	}
	seen.Checked = err == nil
	return err
}

// gatesStand says whether what the gates said last is of this change, and counts for
// a while longer.
func (s *Step) gatesStand(identity string) bool {
	last := &s.Memory.gated
	released := s.Insist || last.noWayBack != "" && s.approved()
	return last.change == s.changeGated(identity) && !released && !finding.Due(s.Now, last.at, s.Retry)
}

func (s *Step) changeGated(identity string) gatedChange {
	return gatedChange{identity: identity, revision: s.Revision, generation: s.Sync.Generation}
}

// gatesRefused is why the gates have refused or held a change, for as long as that
// counts.
func (s *Step) gatesRefused(identity string) error {
	last := &s.Memory.gated
	f := fault.Classify(last.err)
	switch {
	case !s.gatesStand(identity):
		return nil
	case last.noWayBack != "":
		s.WakeBy(last.at.Add(s.Retry))
		return fault.Held(errors.New(last.noWayBack))
	case f != nil && f.Class == fault.Terminal:
		s.WakeBy(last.at.Add(s.Retry))
		return last.err
	}
	return nil
}

// approved says that a person has accepted that the version cannot be rolled back.
func (s *Step) approved() bool {
	return s.Sync.Annotations[v1alpha1.NoWayBackAnnotation] == s.Karpenter.Version
}

// passGates goes from what costs nothing to what costs most.
func (s *Step) passGates(ctx context.Context, seen *upgrade.Seen) error {
	if err := s.weigh(ctx, seen); err != nil {
		return err
	}
	return s.Helm.Rehearse(ctx, s.Charts, s.installation())
}

// weigh are the gates that go by what is read.
func (s *Step) weigh(ctx context.Context, seen *upgrade.Seen) error {
	if err := s.checkOwners(ctx); err != nil {
		return err
	}
	to := s.Charts.Version
	from, err := s.inForce(ctx)
	if err != nil {
		return err
	}
	if err := s.checkVersions(ctx, from, to); err != nil {
		return err
	}
	if err := s.checkValues(from, to); err != nil {
		return err
	}
	live, next, migrations, err := s.changeOfCRDs(ctx)
	if err != nil {
		return err
	}
	seen.Migrated = len(migrations) == 0
	if back := s.k().Version; back != "" && back != to {
		if seen.NoWayBack, err = s.noWayBack(ctx, live, next); err != nil {
			return err
		}
		return s.forecast(seen, live, next)
	}
	return nil
}

// inForce is the version that runs now: that of the last change or of what is adopted,
// and where no status tells, that of a controller that is there. Empty where none is.
func (s *Step) inForce(ctx context.Context) (string, error) {
	if version := s.k().Version; version != "" {
		return version, nil
	}
	deployments, err := s.View.Controllers(ctx, s.k().Namespace)
	if err != nil {
		return "", err
	}
	for i := range deployments {
		version, err := s.versionOf(ctx, &deployments[i])
		if err != nil {
			return "", err
		}
		if _, err := karpenter.KubernetesOf(version); err == nil {
			return version, nil
		} // a custom tag is no version
	}
	return "", nil
}

// checkVersions checks that the cluster's Kubernetes is known to the version, that
// both are known here or accepted, and that no version is skipped which must not be.
func (s *Step) checkVersions(ctx context.Context, from, to string) error {
	kubernetes, err := s.Helm.ServerVersion(ctx)
	if err != nil {
		return err
	}
	if err := karpenter.CheckKubernetes(kubernetes, to); err != nil {
		return err
	}
	if err := karpenter.CheckTested(kubernetes, to, s.Karpenter.AcceptUntested); err != nil {
		if from != to {
			return err
		}
		s.Warn(v1alpha1.ReasonUntested, err.Error()) // it runs there already
	}
	if from == "" {
		return nil
	}
	return karpenter.CheckHop(from, to)
}

// checkValues checks that the chart knows each value.
func (s *Step) checkValues(from, to string) error {
	chart, err := s.Charts.Values()
	if err != nil {
		return err
	}
	return karpenter.CheckValues(s.Values.Merged, chart, from, to)
}
