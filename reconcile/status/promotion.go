package status

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/fluxcd/pkg/runtime/conditions"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
)

// setPromoted reports whether this cluster has taken the newest commit, and what it waits for otherwise.
func (s *Step) setPromoted() {
	p := s.Sync.Status.Promotion
	failed := fault.Classify(cmp.Or(s.Unfetched, s.faultError()))
	switch {
	case s.Sync.Spec.Promotion == nil || p == nil:
		conditions.Delete(s.Sync, v1alpha1.PromotedCondition)
	case failed != nil && failed.Reason == v1alpha1.ReasonPromotionFailed:
		conditions.MarkFalse(s.Sync, v1alpha1.PromotedCondition, v1alpha1.ReasonPromotionFailed, "%s", finding.Bounded(failed.Error(), MaxMessage))
	case len(p.Waits) > 0:
		w := p.Waits[0]
		conditions.MarkFalse(s.Sync, v1alpha1.PromotedCondition, w.Reason, "%s",
			finding.Bounded(fmt.Sprintf("%s is not taken: %s", report.ShortCommit(w.Commit), w.Message), MaxMessage))
	case p.Taken != "":
		conditions.MarkTrue(s.Sync, v1alpha1.PromotedCondition, v1alpha1.ReasonNewestTaken, "%s is taken, and no newer commit is known", report.ShortCommit(p.Taken))
	}
}

// faultError returns the error that ended the reconcile; nil if there was none.
func (s *Step) faultError() error {
	if s.Fault == nil {
		return nil
	}
	return s.Fault
}

// commitWaits returns what to report for the commits that the rings make wait.
func (s *Step) commitWaits() []report.Waiting {
	if s.Sync.Status.Promotion == nil {
		return nil
	}
	var all []report.Waiting
	for _, w := range s.Sync.Status.Promotion.Waits {
		all = append(all, report.Waiting{Commit: w.Commit, Description: w.Message})
	}
	return all
}

// notFailures are the reasons for which a person has to act although nothing is wrong with the commit: it is held, or
// this is not about the commit.
func notFailures() []string {
	return []string{
		v1alpha1.ReasonHeld, v1alpha1.ReasonDrifted, v1alpha1.ReasonNamespaceNotWatched, v1alpha1.ReasonPromotionFailed,
		v1alpha1.ReasonSourceFailed,
	}
}

// Outcome returns, after Conclude, what became of the reconcile's commit: whether it is rolled out and everything was
// judged good, as the commit status success says, and otherwise why it failed, in one line. It is neither while the
// commit is in progress, and while a host or the API server cannot be queried.
func (s *Step) Outcome() (rolledOut bool, failed string) {
	v, says := s.commitVerdict()
	switch {
	case s.Sync.Status.IdentityConflict.Open():
		return false, s.identityVerdict().CommitText()
	case says != everything:
		return false, ""
	case v.ofNodes && v.CommitState() == report.Failure:
		if s.braked() && rollout.OnlyHeld(s.Sync.Status.PoolRollouts) {
			return false, "" // it continues once an alert has cleared
		}
		return false, v.CommitText()
	case v.Class == Stuck && !slices.Contains(notFailures(), v.Reason):
		return false, v.CommitText()
	}
	return v.CommitState() == report.Success && s.started() && s.SawRollout && conditions.IsTrue(s.Sync, v1alpha1.RolledOutCondition), ""
}
