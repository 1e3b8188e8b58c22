package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/plumbline-dev/plumbline/provision/owners"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// OtherSync is another NodeSync, and what is known of its newest Set.
type OtherSync struct {
	Owner
	// Known reports whether its newest revision has been rendered, and Entries are what it
	// had. The map is read only.
	Known   bool
	Entries map[render.Ref]bool
	// Suspended reports whether it renders for others only: which entries it has is looked at.
	Suspended bool
	// Awaited reports whether its newest revision is going to be rendered: it is not being
	// deleted, and it is served.
	Awaited bool
	// Failure is the reason of its Ready condition where that is False, and of one that is
	// suspended why its Git cannot be read.
	Failure string
	// Since is since when our NodeSync waits for it; zero if it does not.
	Since time.Time
}

// has reports whether its Git has an entry; false if that is unknown.
func (o OtherSync) has(ref render.Ref) bool { return o.Known && o.Entries[ref] }

// unheard reports whether is unknown yet what its Git has.
func (o OtherSync) unheard() bool { return !o.Known && o.Awaited }

// unread reports whether is unknown what its Git had before either.
func (o OtherSync) unread() bool { return o.unheard() && o.Entries == nil }

// waiting is a sentence on a NodeSync whose newest revision is not known yet.
func (o OtherSync) waiting() string {
	switch {
	case o.Suspended && o.Failure != "":
		return fmt.Sprintf("NodeSync %s, which is suspended or drained and whose Git cannot be fetched (%s): correct its source", o.Owner, o.Failure)
	case o.Suspended:
		return fmt.Sprintf("plumbline to fetch the Git of NodeSync %s, which is suspended or drained", o.Owner)
	case o.Failure != "":
		return fmt.Sprintf("NodeSync %s, which fails (%s): correct it", o.Owner, o.Failure)
	}
	return fmt.Sprintf("NodeSync %s to render its newest revision", o.Owner)
}

// applying is a sentence on a NodeSync whose Git has what is waited for.
func (o OtherSync) applying() string {
	switch {
	case o.Suspended:
		return fmt.Sprintf("NodeSync %s, which has the object in Git but is suspended: resume it", o.Owner)
	case o.Failure != "":
		return fmt.Sprintf("NodeSync %s, which has the object in Git but fails (%s): correct it", o.Owner, o.Failure)
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

// owns reports whether an object is ours: its label is, as plumbline has applied it.
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
	ref := render.RefOf(object)
	for _, other := range others {
		if other.Entries[ref] { // also where that may be of yesterday: it costs nothing to wait
			return other.Owner, true
		}
	}
	m := &maker{policy: Policy{OtherSyncs: others}}
	whose, other := m.ownership(NewObject(object))
	return other.Owner, whose == theirs
}

// unheard returns a NodeSync of which is unknown yet what its Git has, one that
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
		change.Message = fmt.Sprintf("%s is handed over by NodeSync %s, whose Git no longer contains it", change.Ref, other.Owner)
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
		change.Message = fmt.Sprintf("another client changed the label %s of %s: waiting for %s", v1alpha1.OwnerLabel, change.Ref, waitsFor.waiting())
	case j.foreign != nil:
		change.conflict(ReasonOtherApplier, &ConflictError{Ref: change.Ref, Tools: j.tools, Fields: paths(j.foreign)})
	default:
		change.update(j)
	}
}

// Owner is the NodeSync that an object belongs to. Written on each object, it
// is the inventory.
type Owner struct {
	Namespace, Name string
}

// OwnerOf names a NodeSync as an owner.
func OwnerOf(namespace, name string) Owner { return Owner{Namespace: namespace, Name: name} }

// String returns namespace/name, as people write it.
func (o Owner) String() string { return o.Namespace + "/" + o.Name }

// shortened is how much of a name that is too long for a label is kept before
// the hash of the whole: 52 + "-" + 10 is the 63 that a label may have.
const shortened = 52

// Label returns the value of the ownership label, and that of the annotation
// of the same key, which is empty if the label holds the whole name.
func (o Owner) Label() (label, annotation string) {
	full := o.Namespace + "." + o.Name
	if len(full) <= validation.LabelValueMaxLength {
		return full, ""
	}
	sum := sha256.Sum256([]byte(full))
	return full[:shortened] + "-" + hex.EncodeToString(sum[:])[:10], full
}

// Owns reports whether an object bears the owner's label.
func (o Owner) Owns(object metav1.Object) bool {
	return o.named(object.GetLabels()[v1alpha1.OwnerLabel], object.GetAnnotations()[v1alpha1.OwnerLabel])
}

// OwnerNamed is the NodeSync that the ownership label of an object names; ok is false if there is none.
// Whether plumbline has written it there is another question.
func OwnerNamed(object metav1.Object) (owner Owner, ok bool) {
	label := cmp.Or(object.GetAnnotations()[v1alpha1.OwnerLabel], object.GetLabels()[v1alpha1.OwnerLabel])
	owner.Namespace, owner.Name, ok = strings.Cut(label, ".")
	return owner, ok
}

// named reports whether a label and an annotation, which may be empty, name the owner.
func (o Owner) named(label, annotation string) bool {
	want, whole := o.Label()
	return label == want && (whole == "" || annotation == "" || annotation == whole)
}

// LabelAgain ends the sentence on an object whose ownership label was changed by hand: what
// follows from it, and what to do.
func (o Owner) LabelAgain() string {
	label, _ := o.Label()
	return fmt.Sprintf("so plumbline does not remove it: set the label back to %s, or, to keep the object, delete ConfigMap %s", label, v1alpha1.AppliedName(o.Name))
}

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
		change.Message = fmt.Sprintf("%s exists without an owner and matches Git: plumbline adds its label", change.Ref)
	}
}

// ReasonOrphan is the reason of an entry that would be orphaned, and waits until people approve that.
const ReasonOrphan = "Orphan"

// orphans holds what would be orphaned until people have approved that: nobody would manage its nodes.
// No node ends, so that no limit of the guard is about it.
func orphans(c Candidate, w weighing) (reason, message string, hold bool) {
	if c.approved.covers(ReasonOrphan) {
		return "", "", false
	}
	if c.Keeper != "" {
		return ReasonOrphan, fmt.Sprintf("%s was removed from Git, but %s: plumbline does not delete it, and its nodes keep running; approve that no NodeSync manages it, or add it back to Git", c.Ref, c.Keeper), true
	}
	return ReasonOrphan, fmt.Sprintf("removal.strategy is Orphan: %s stays in the cluster, its nodes keep running, and no NodeSync manages it: approve that, add it back to Git, or set another strategy", c.Ref), true
}

// keeper says of an object that Flux or Argo CD applies it as well, or that it is annotated to stay when
// it leaves a source: it is being handed over, or back, and is not ours to remove. Empty if neither is so.
func keeper(object *Object) string {
	if by, ok := appliedBesides(object); ok {
		return "is applied by " + by.String()
	}
	if mark, ok := owners.Kept(object); ok {
		return fmt.Sprintf("is annotated with %q", mark)
	}
	return ""
}

// appliedBesides is the tool whose labels or annotations an object has.
func appliedBesides(object *Object) (owners.Owner, bool) {
	owner := owners.Of(object)
	return owner, owner.Reconciles() && owner.Kind != ""
}

// unorphan removes the label of an orphaned object when it is adopted again.
func (c *Change) unorphan() {
	if c.Action == Adopt && c.Live.GetLabels()[v1alpha1.OrphanedLabel] != "" {
		c.Takeover, c.Taken = true, append(c.Taken, []string{"metadata", "labels", v1alpha1.OrphanedLabel})
	}
}

// OrphanedPool is a NodePool that a NodeSync has orphaned, and how many NodeClaims it has.
type OrphanedPool struct {
	Name  string
	Nodes int
}

// IsOrphaned reports whether an owner has left an object to itself, and nobody has adopted it since.
func (o *Object) IsOrphaned(by Owner) bool {
	label, _ := by.Label()
	return o.owner == "" && o.GetLabels()[v1alpha1.OrphanedLabel] == label
}

// Orphaned are the NodePools with nodes that an owner has no longer managed, and that no other tool
// applies, by name.
func (l Live) Orphaned(by Owner) []OrphanedPool {
	var found []OrphanedPool
	var claims map[render.Ref][]*NodeClaim
	for ref, object := range l.Objects {
		if ref.Kind != render.NodePool || !object.IsOrphaned(by) {
			continue
		}
		if _, applied := appliedBesides(object); applied {
			continue
		}
		if claims == nil {
			claims = l.claims()
		}
		if n := len(claims[ref]); n > 0 {
			found = append(found, OrphanedPool{Name: ref.Name, Nodes: n})
		}
	}
	slices.SortFunc(found, func(a, b OrphanedPool) int { return cmp.Compare(a.Name, b.Name) })
	return found
}
