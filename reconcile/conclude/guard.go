package conclude

import (
	"github.com/fluxcd/pkg/runtime/conditions"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// setDeletionUnguarded tells of a deletion guard that is missing or altered, for as long as it is, and
// when it is there again. A pass that has not looked leaves what was reported.
func (s *Step) setDeletionUnguarded() {
	const kind = v1alpha1.DeletionUnguardedCondition
	words, reason := s.Guard.Words(), s.Guard.Reason()
	if s.Guard.Looked && words == "" && conditions.IsTrue(s.Before, kind) {
		s.Event(v1alpha1.ReasonGuardRestored, "each policy of the deletion guard is as this version of plumbline installs it")
	}
	switch {
	case !s.Guard.Looked:
	case reason == v1alpha1.ReasonGuardUnknown:
		s.setUnknown(kind, reason, words)
	default:
		s.setTrouble(kind, reason, words)
	}
}

// setKarpenterDenied tells of a deletion guard that denies Karpenter's controller the removal of its own finalizers, for as
// long as it does. A pass that has not looked leaves what was reported.
func (s *Step) setKarpenterDenied() {
	const kind = v1alpha1.KarpenterDeniedCondition
	switch {
	case !s.Denial.Looked:
	case s.Denial.Unknown != "":
		s.setUnknown(kind, v1alpha1.ReasonFinalizerUnknown, s.Denial.Message())
	default:
		s.setTrouble(kind, v1alpha1.ReasonFinalizerDenied, s.Denial.Message())
	}
}

// setChartsUnguarded tells of policies that limit what plumbline writes and that are missing or altered, for as long as they are. A
// pass that has not looked leaves what was reported.
func (s *Step) setChartsUnguarded() {
	const kind = v1alpha1.ChartsUnguardedCondition
	message, reason := s.Guard.ChartsMessage(), s.Guard.ChartsReason()
	switch {
	case !s.Guard.Looked:
	case reason == v1alpha1.ReasonChartPoliciesUnknown:
		s.setUnknown(kind, reason, message)
	default:
		s.setTrouble(kind, reason, message)
	}
}
