package conclude

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fluxcd/pkg/apis/meta"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/approval"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
)

// withApproval says of what is held how people approve it, where they may.
func (s *Step) withApproval(v Verdict) Verdict {
	held := s.Sync.Status.Held
	if held == nil {
		return v
	}
	v.Message += "; " + approval.Sentence(s.Sync)
	v.Brief = fault.Brief{What: "held", Cause: held.Summary, Then: approval.Ask(held), Where: v.Brief.Where}
	return v
}

// approvedNow is what this pass records as approved; nil if there is none. The plan of the pass was made without it, so
// that it still holds what the next pass does.
func (s *Step) approvedNow() *v1alpha1.ApprovedPlan {
	held, approved := s.Before.Status.Held, s.Sync.Status.Approved
	if held == nil || s.Sync.Status.Held != nil {
		return nil
	}
	recorded := func(a v1alpha1.ApprovedPlan) bool { return a.Digest == held.Digest }
	i := slices.IndexFunc(approved, recorded)
	if i < 0 || slices.ContainsFunc(s.Before.Status.Approved, recorded) {
		return nil
	}
	return &approved[i]
}

// approvedVerdict reports who has approved what was held.
func (s *Step) approvedVerdict(approved *v1alpha1.ApprovedPlan) Verdict {
	words := fmt.Sprintf("approved by %s: %s", strings.Join(approved.By, ", "), s.Before.Status.Held.Summary)
	return Verdict{Class: Working, Reason: meta.ProgressingReason, Message: words, Brief: fault.Brief{What: words}}
}
