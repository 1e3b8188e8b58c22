package conclude

import (
	"github.com/fluxcd/pkg/runtime/conditions"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
)

// setIntolerantDaemonSets tells of DaemonSets that a drain evicts too early, for as long as they
// lack their toleration. A pass that has not come so far leaves what was reported.
func (s *Step) setIntolerantDaemonSets() {
	switch words := finding.Bounded(s.DaemonSets.Trouble(), MaxMessage); {
	case !s.Planned:
	case s.DaemonSets.Unread != "":
		conditions.MarkUnknown(s.Sync, v1alpha1.IntolerantDaemonSetsCondition, v1alpha1.ReasonTolerationUnknown, "%s", words)
	case words == "":
		conditions.Delete(s.Sync, v1alpha1.IntolerantDaemonSetsCondition)
	default:
		conditions.MarkTrue(s.Sync, v1alpha1.IntolerantDaemonSetsCondition, v1alpha1.ReasonTolerationMissing, "%s", words)
	}
	s.warnOfCondition(v1alpha1.IntolerantDaemonSetsCondition)
}
