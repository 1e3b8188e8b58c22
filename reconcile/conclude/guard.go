package conclude

import (
	"github.com/fluxcd/pkg/runtime/conditions"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
)

// setDeletionUnguarded tells of a deletion guard that is missing or altered, for as long as it is, and
// when it is there again. A pass that has not looked leaves what was reported.
func (s *Step) setDeletionUnguarded() {
	const kind = v1alpha1.DeletionUnguardedCondition
	switch words := finding.Bounded(s.Guard.Words(), MaxMessage); {
	case !s.Guard.Looked:
	case words == "":
		if conditions.IsTrue(s.Before, kind) {
			s.Event(v1alpha1.ReasonGuardRestored, "each policy of the deletion guard is as this version of plumbline installs it")
		}
		conditions.Delete(s.Sync, kind)
	case s.Guard.Reason() == v1alpha1.ReasonGuardUnknown:
		conditions.MarkUnknown(s.Sync, kind, s.Guard.Reason(), "%s", words)
	default:
		conditions.MarkTrue(s.Sync, kind, s.Guard.Reason(), "%s", words)
	}
	s.warnOfCondition(kind)
}
