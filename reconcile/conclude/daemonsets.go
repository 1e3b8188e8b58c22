package conclude

import (
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// setIntolerantDaemonSets tells of DaemonSets that a drain evicts too early, for as long as they
// lack their toleration. A pass that has not come so far leaves what was reported.
func (s *Step) setIntolerantDaemonSets() {
	const kind = v1alpha1.IntolerantDaemonSetsCondition
	switch doubt := s.DaemonSets.Doubt(); {
	case !s.Planned:
	case doubt != "":
		s.setUnknown(kind, v1alpha1.ReasonTolerationUnknown, doubt)
	default:
		s.setTrouble(kind, v1alpha1.ReasonTolerationMissing, s.DaemonSets.Untolerated())
	}
}
