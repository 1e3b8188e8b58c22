package plan

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// OtherSync is another NodeSync, and what is known of its newest Set.
type OtherSync struct {
	Owner
	// Known says that its newest revision has been rendered, and Entries are what it
	// had. The map is read only.
	Known   bool
	Entries map[render.Ref]bool
	// Suspended says that it renders for others only: which entries it has is looked at.
	Suspended bool
	// Awaited says that its newest revision is going to be rendered: it is not being
	// deleted, and it is served.
	Awaited bool
	// Failure is the reason of its Ready condition where that is False, and of one that is
	// suspended why its Git cannot be read.
	Failure string
	// Since is since when our NodeSync waits for it; zero where it does not.
	Since time.Time
}

// has says whether its Git has an entry, as far as is known.
func (o OtherSync) has(ref render.Ref) bool { return o.Known && o.Entries[ref] }

// unheard says that nobody knows yet what its Git has.
func (o OtherSync) unheard() bool { return !o.Known && o.Awaited }

// unread says that nobody knows what its Git had before either.
func (o OtherSync) unread() bool { return o.unheard() && o.Entries == nil }

// waiting is a sentence on a NodeSync whose newest revision is not known yet.
func (o OtherSync) waiting() string {
	switch {
	case o.Suspended && o.Failure != "":
		return fmt.Sprintf("NodeSync %s, which is suspended or drained, and whose Git cannot be read (%s): correct its source", o.Owner, o.Failure)
	case o.Suspended:
		return fmt.Sprintf("the Git of NodeSync %s, which is suspended or drained, to be read", o.Owner)
	case o.Failure != "":
		return fmt.Sprintf("NodeSync %s, which fails (%s): correct it", o.Owner, o.Failure)
	}
	return fmt.Sprintf("NodeSync %s to render its newest revision", o.Owner)
}

// applying is a sentence on a NodeSync whose Git has what is waited for.
func (o OtherSync) applying() string {
	switch {
	case o.Suspended:
		return fmt.Sprintf("NodeSync %s, which has it in Git and is suspended: resume it", o.Owner)
	case o.Failure != "":
		return fmt.Sprintf("NodeSync %s, which has it in Git and fails (%s): correct it", o.Owner, o.Failure)
	}
	return fmt.Sprintf("NodeSync %s to apply it", o.Owner)
}

// ownership is whose an object is.
type ownership int

const (
	// nobodys: it has no label, or one that plumbline did not write.
	nobodys ownership = iota
	// ours: plumbline has written our label on it.
	ours
	// theirs: plumbline has written the label of another NodeSync that exists.
	theirs
	// relabelled: plumbline has applied it, and another manager has written another
	// label over the one from that apply.
	relabelled
)

// ownership says whose an object is, and for one that is theirs, whose. The label
// counts only as plumbline's own apply has written it: one that a person writes
// neither makes an object ours nor takes it away, unless it is recorded that this NodeSync
// has applied that very object.
func (m *maker) ownership(live *Object) (ownership, OtherSync) {
	named := m.policy.Owner.named(live.owner, live.note)
	mark := live.mark()
	switch {
	case live.owner == "" || mark == unmarked:
		return nobodys, OtherSync{}
	case mark == unlabelled:
		switch {
		case !named:
			return relabelled, OtherSync{}
		case m.live.recorded(live.Unstructured):
			return ours, OtherSync{} // a person has set the label again
		}
		return nobodys, OtherSync{}
	case named:
		return ours, OtherSync{}
	}
	for _, other := range m.policy.OtherSyncs {
		if other.named(live.owner, live.note) {
			return theirs, other
		}
	}
	return nobodys, OtherSync{}
}

func ownerLabelPath() []string { return []string{"metadata", "labels", v1alpha1.OwnerLabel} }

// owns says whether an object is ours: its label is, as plumbline has applied it.
func (m *maker) owns(live *Object) bool {
	if !m.policy.Owner.named(live.owner, live.note) {
		return false
	}
	owner, _ := m.ownership(live)
	return owner == ours
}

// wantedBy returns the other NodeSync whose Git has an entry.
func (m *maker) wantedBy(ref render.Ref) (OtherSync, bool) {
	for _, other := range m.policy.OtherSyncs {
		if other.has(ref) {
			return other, true
		}
	}
	return OtherSync{}, false
}

// GoesTo returns the NodeSync that an object goes to: its label is on it, as
// plumbline's apply has written that, or its Git has the object's entry.
func GoesTo(object *unstructured.Unstructured, others []OtherSync) (to Owner, ok bool) {
	ref := render.Ref{Kind: object.GetKind(), Name: object.GetName()}
	for _, other := range others {
		if other.Entries[ref] { // also where that may be of yesterday: it costs nothing to wait
			return other.Owner, true
		}
	}
	m := &maker{policy: Policy{OtherSyncs: others}}
	whose, other := m.ownership(NewObject(object))
	return other.Owner, whose == theirs
}

// unheard returns a NodeSync of which nobody knows yet what its Git has, one that
// fails before others.
func (m *maker) unheard() (found OtherSync, any bool) { return m.firstOf(OtherSync.unheard) }

// unread returns likewise one whose Git was not read since the daemon has started.
func (m *maker) unread() (found OtherSync, any bool) { return m.firstOf(OtherSync.unread) }

func (m *maker) firstOf(is func(OtherSync) bool) (found OtherSync, any bool) {
	for _, other := range m.policy.OtherSyncs {
		if is(other) && (!any || found.Failure == "" && other.Failure != "") {
			found, any = other, true
		}
	}
	return found, any
}

// takeFromOther decides on an object that another NodeSync has applied. It is
// handed over once that NodeSync's Git is known to have it no more.
func (m *maker) takeFromOther(change *Change, j judgement, other OtherSync) {
	switch {
	case other.unheard():
		change.await(other)
		change.Message = fmt.Sprintf("%s belongs to NodeSync %s: waiting for %s", change.Ref, other.Owner, other.waiting())
	case !other.Known || other.has(change.Ref):
		change.conflict(ReasonOtherSync, &ConflictError{Ref: change.Ref, Owner: other.String()})
	case j.foreign != nil:
		change.conflict(ReasonOtherApplier, &ConflictError{Ref: change.Ref, Tools: j.tools, Fields: paths(j.foreign)})
	default:
		change.Action, change.Reason, change.Force = Adopt, ReasonHandedOver, true
		if j.residue || j.brake {
			change.Action = TakeBack // its removal had begun, or its rollout was stopped
		}
		change.Message = fmt.Sprintf("%s is handed over by NodeSync %s, whose Git no longer has it", change.Ref, other.Owner)
	}
}

// await has a Change wait for another NodeSync.
func (c *Change) await(other OtherSync) {
	c.Action, c.Reason, c.WaitsFor, c.WaitsSince = Wait, ReasonOtherSync, "NodeSync/"+other.Name, other.Since
}

// relabel decides on an object of Git whose label another client has overwritten. Where
// another NodeSync has it too, nobody can say whose it was.
func (m *maker) relabel(change *Change, j judgement) {
	other, wanted := m.wantedBy(change.Ref)
	waitsFor, unheard := m.unheard()
	switch {
	case wanted:
		change.conflict(ReasonOtherSync, &ConflictError{Ref: change.Ref, Owner: other.String()})
	case unheard:
		change.await(waitsFor)
		change.Message = fmt.Sprintf("another client has changed the label %s of %s: waiting for %s", v1alpha1.OwnerLabel, change.Ref, waitsFor.waiting())
	case j.foreign != nil:
		change.conflict(ReasonOtherApplier, &ConflictError{Ref: change.Ref, Tools: j.tools, Fields: paths(j.foreign)})
	default:
		change.update(j)
	}
}
