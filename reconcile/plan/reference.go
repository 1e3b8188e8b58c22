package plan

import (
	"fmt"

	"github.com/plumbline-dev/plumbline/render"
)

// needClass lets an object be written only when the class that it names is
// there, not terminating, or is made just before it.
func (m *maker) needClass(change *Change) {
	class, ok := render.Reference(change.Ref, change.Object.Desired)
	if !ok || m.policy.Offline {
		return
	}
	live, before := m.live.object(class), m.changes[class]
	switch {
	case live != nil && terminating(live):
		change.wait(ReasonTerminating, class, fmt.Sprintf("%s names %s, which is being deleted", change.Ref, class))
	case live != nil || before.Action == Create:
	case m.inSet[class]:
		change.wait(ReasonClassNotMade, class, fmt.Sprintf("%s names %s, which could not be made: %s", change.Ref, class, before.Message))
	default:
		m.needForeignClass(change, class)
	}
}

// needForeignClass decides on an object whose class is neither in our Git nor in the cluster. With the
// same commit another NodeSync may bring it.
func (m *maker) needForeignClass(change *Change, class render.Ref) {
	brings, wanted := m.wantedBy(class)
	waitsFor, unheard := m.unheard()
	switch {
	case wanted:
		change.await(brings)
		change.Message = fmt.Sprintf("%s names %s: waiting for %s", change.Ref, class, brings.applying())
	case unheard:
		change.await(waitsFor)
		change.Message = fmt.Sprintf("%s names %s, which is neither in our Git nor in the cluster: waiting for %s", change.Ref, class, waitsFor.waiting())
	default:
		err := &MissingClassError{Ref: change.Ref, Class: class, Origin: change.Object.Origin}
		change.Action, change.Reason, change.Message, change.Err = Refuse, ReasonClassMissing, err.Error(), err
	}
}

func (c *Change) wait(reason string, on render.Ref, message string) {
	c.Action, c.Reason, c.WaitsFor, c.Message = Wait, reason, on.String(), message
}
