package conclude

import (
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
