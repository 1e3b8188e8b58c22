package conclude

import (
	"github.com/fluxcd/pkg/runtime/conditions"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
)

// setIntolerantDaemonSets tells of DaemonSets that a drain evicts too early, for as long as they
// lack their toleration. A pass that has not come so far leaves what was reported.
func (s *Step) setIntolerantDaemonSets() {
	switch words := s.DaemonSets.Untolerated(); {
	case !s.Planned:
	case s.DaemonSets.Unread != "":
		conditions.MarkUnknown(s.Sync, v1alpha1.IntolerantDaemonSetsCondition, v1alpha1.ReasonTolerationUnknown, "%s",
			finding.Bounded("whether the DaemonSets of CSI drivers and CNI plugins tolerate a drain is not known: "+s.DaemonSets.Unread, MaxMessage))
	case words == "":
		conditions.Delete(s.Sync, v1alpha1.IntolerantDaemonSetsCondition)
	default:
		conditions.MarkTrue(s.Sync, v1alpha1.IntolerantDaemonSetsCondition, v1alpha1.ReasonTolerationMissing, "%s", finding.Bounded(words, MaxMessage))
	}
	s.warnOfCondition(v1alpha1.IntolerantDaemonSetsCondition)
}
