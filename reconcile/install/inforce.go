package install

import (
	"errors"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
)

// Refused is why an earlier pass has found that the change in Git is not made;
// nil where that has to be found out.
func (s *Step) Refused() (why, err error) {
	k := s.k()
	if k == nil || k.Target == nil || s.Insist || upgrade.InForce(*k) == "" {
		return nil, nil
	}
	identity, err := s.Identity()
	if err != nil || k.Target.Identity != identity {
		return nil, err
	}
	switch k.Target.Step {
	case v1alpha1.ChartRolledBack:
		return fault.UpgradeFailed(errors.New(k.Target.Message)), nil
	case v1alpha1.ChartChecking:
		return s.gatesRefused(identity), nil
	default:
		return nil, nil
	}
}

// InForce says whether a change that failed leaves a release in force, under which the
// rest of the pass goes on.
func InForce(k *v1alpha1.KarpenterStatus, failed error) bool {
	f := fault.Classify(failed)
	return f != nil && (f.Class == fault.Terminal || IsFrozen(failed)) && upgrade.InForce(*k) != ""
}

// IsFrozen says of an error that a change of the charts waits for a window of spec.guard.
func IsFrozen(err error) bool {
	var frozen *frozenError
	return errors.As(err, &frozen)
}
