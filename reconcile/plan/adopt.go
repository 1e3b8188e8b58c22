package plan

import (
	"fmt"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// adopt decides on an object that exists without an owner.
func (m *maker) adopt(change *Change, j judgement) {
	switch {
	case m.policy.Adopt == v1alpha1.AdoptNever:
		change.conflict(ReasonNotAdopted, &ConflictError{Ref: change.Ref, Adopt: v1alpha1.AdoptNever})
	case m.policy.Adopt == v1alpha1.AdoptAlways && j.foreign != nil:
		change.conflict(ReasonOtherApplier, &ConflictError{Ref: change.Ref, Tools: j.tools, Fields: paths(j.foreign)})
	case m.policy.Adopt == v1alpha1.AdoptAlways:
		change.Action, change.Reason, change.Force = Adopt, ReasonUnowned, true
		change.Message = fmt.Sprintf("%s exists without an owner and is adopted", change.Ref)
	case len(j.specChanges()) > 0:
		change.conflict(ReasonNotAdopted, &ConflictError{Ref: change.Ref, Adopt: v1alpha1.AdoptIfIdentical, Fields: paths(j.specChanges())})
	default:
		// Nothing of it changes, so nothing has to be forced: should another client
		// write to it in between, the API server says so.
		change.Action, change.Reason, change.Takeover, change.Taken = Adopt, ReasonUnowned, false, nil
		change.Message = fmt.Sprintf("%s exists without an owner, as Git says, and gets our label", change.Ref)
	}
}
