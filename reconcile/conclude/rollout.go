package conclude

import (
	"github.com/fluxcd/pkg/runtime/conditions"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/nodes"
	"github.com/plumbline-dev/plumbline/reconcile/report"
)

// setRolledOut says whether each node matches its definitions. A pass that has not come so far
// leaves what was reported.
func (s *Step) setRolledOut() {
	if !s.SawRollout {
		return
	}
	r := s.Sync.Status.Rollout
	switch {
	case r == nil:
		conditions.MarkTrue(s.Sync, v1alpha1.RolledOutCondition, v1alpha1.ReasonSucceeded, "each node matches its definitions")
	case s.rolloutTimedOut():
		conditions.MarkFalse(s.Sync, v1alpha1.RolledOutCondition, v1alpha1.ReasonRolloutTimedOut, "%s", finding.Bounded(s.rolloutBrief(), MaxMessage))
	default:
		conditions.MarkFalse(s.Sync, v1alpha1.RolledOutCondition, v1alpha1.ReasonRollingOut, "%s", finding.Bounded(nodes.RolloutWords(*r), MaxMessage))
	}
}

// rolloutTimedOut says that nodes do not match for longer than spec.rollout.timeout.
func (s *Step) rolloutTimedOut() bool {
	r, limit := s.Sync.Status.Rollout, s.Sync.Spec.Rollout.Timeout
	return r != nil && limit != nil && !s.Began.Before(r.Since.Add(limit.Duration))
}

// rolloutBrief is the rollout in a commit status.
func (s *Step) rolloutBrief() string {
	words := "rolling out: " + nodes.RolloutWords(*s.Sync.Status.Rollout)
	if s.rolloutTimedOut() {
		words = "not rolled out within " + s.Sync.Spec.Rollout.Timeout.Duration.String() + ": " + nodes.RolloutWords(*s.Sync.Status.Rollout)
	}
	return words
}

// withRollout has the commit status of a verdict on what is applied wait for the nodes. Ready does
// not: it is of the definitions, and windows of disruption budgets may be a week apart.
func (s *Step) withRollout(v Verdict) Verdict {
	r := s.Sync.Status.Rollout
	if r == nil || v.Class != Done {
		return v
	}
	v.told, v.Brief = report.Pending, fault.Brief{What: s.rolloutBrief()}
	if s.rolloutTimedOut() {
		v.told = report.Failure
	}
	return v
}

// wakeForRollout has a pass come when the rollout has taken too long.
func (s *Step) wakeForRollout() {
	if r, limit := s.Rollout, s.Sync.Spec.Rollout.Timeout; r != nil && limit != nil && !s.rolloutTimedOut() {
		s.WakeBy(r.Since.Add(limit.Duration))
	}
}
