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

// OtherSync is another NodeSync, and what is known about its newest Set.
type OtherSync struct {
	Owner
	// Known reports whether its newest revision has been rendered, and Entries are the objects in it. The map is read
	// only.
	Known   bool
	Entries map[render.Ref]bool
	// Suspended reports whether it is rendered only to tell other NodeSyncs which objects it contains.
	Suspended bool
	// Awaited reports whether its newest revision will be rendered: the NodeSync is not being deleted, and it is
	// served.
	Awaited bool
	// Failure is the reason of its Ready condition if that is False; for a suspended NodeSync, why its Git cannot be
	// read.
	Failure string
	// Since is when our NodeSync started to wait for it; zero if it does not.
	Since time.Time
}

// has reports whether its Git contains an object; false if that is unknown.
func (o OtherSync) has(ref render.Ref) bool { return o.Known && o.Entries[ref] }

// newestUnknown reports whether the content of its Git is unknown yet.
func (o OtherSync) newestUnknown() bool { return !o.Known && o.Awaited }

// contentUnknown reports whether the previous content of its Git is unknown too.
func (o OtherSync) contentUnknown() bool { return o.newestUnknown() && o.Entries == nil }

// waiting describes a NodeSync whose newest revision is unknown yet.
func (o OtherSync) waiting() string {
	switch {
	case o.Suspended && o.Failure != "":
		return fmt.Sprintf("NodeSync %s, which is suspended or drained and whose Git cannot be fetched (%s): correct its source",
			o.Owner, o.Failure)
	case o.Suspended:
		return fmt.Sprintf("plumbline to fetch the Git of NodeSync %s, which is suspended or drained", o.Owner)
	case o.Failure != "":
		return fmt.Sprintf("NodeSync %s, which fails (%s): correct it", o.Owner, o.Failure)
	}
	return fmt.Sprintf("NodeSync %s to render its newest revision", o.Owner)
}

// applying describes a NodeSync whose Git contains the object that is waited for.
func (o OtherSync) applying() string {
	switch {
	case o.Suspended:
		return fmt.Sprintf("NodeSync %s, which has the object in Git but is suspended: resume it", o.Owner)
	case o.Failure != "":
		return fmt.Sprintf("NodeSync %s, which has the object in Git but fails (%s): correct it", o.Owner, o.Failure)
	}
	return fmt.Sprintf("NodeSync %s to apply it", o.Owner)
}

// ownership says who owns an object.
type ownership int

const (
	// unowned: it has no label, or one that plumbline did not write.
	unowned ownership = iota
	// ownedByUs: plumbline wrote our label on it.
	ownedByUs
	// ownedByOther: plumbline wrote the label of another NodeSync that exists.
	ownedByOther
	// relabelled: plumbline has applied it, and another manager has overwritten the label.
	relabelled
)

// ownership returns who owns an object, and the other NodeSync if it is theirs. The label counts only if plumbline's
// own apply has written it: a person who writes it neither makes an object ours nor takes it away, unless the NodeSync
// has recorded that it applied this object.
func (m *maker) ownership(live *Object) (ownership, OtherSync) {
	named := m.policy.Owner.named(live.owner, live.note)
	mark := live.mark()
	switch {
	case live.owner == "" || mark == unmarked:
		return unowned, OtherSync{}
	case mark == unlabelled:
		switch {
		case !named:
			return relabelled, OtherSync{}
		case m.live.recorded(live.Unstructured):
			return ownedByUs, OtherSync{} // a person has set the label again
		}
		return unowned, OtherSync{}
	case named:
		return ownedByUs, OtherSync{}
	}
	for _, other := range m.policy.OtherSyncs {
		if other.named(live.owner, live.note) {
			return ownedByOther, other
		}
	}
	return unowned, OtherSync{}
}

func ownerLabelPath() []string { return []string{"metadata", "labels", v1alpha1.OwnerLabel} }

// owns reports whether an object is ours: it has our label, written by plumbline's apply.
func (m *maker) owns(live *Object) bool {
	if !m.policy.Owner.named(live.owner, live.note) {
		return false
	}
	owner, _ := m.ownership(live)
	return owner == ownedByUs
}

// wantedBy returns the other NodeSync whose Git contains an object.
func (m *maker) wantedBy(ref render.Ref) (OtherSync, bool) {
	for _, other := range m.policy.OtherSyncs {
		if other.has(ref) {
			return other, true
		}
	}
	return OtherSync{}, false
}

// NewOwner returns the NodeSync that adopts an object: plumbline's apply has written its label on the object, or its
// Git contains the object.
func NewOwner(object *unstructured.Unstructured, others []OtherSync) (to Owner, ok bool) {
	ref := render.RefOf(object)
	for _, other := range others {
		if other.Entries[ref] { // even if Entries are outdated: waiting is safe
			return other.Owner, true
		}
	}
	m := &maker{policy: Policy{OtherSyncs: others}}
	whose, other := m.ownership(NewObject(object))
	return other.Owner, whose == ownedByOther
}

// syncWithUnknownNewest returns a NodeSync whose newest content of Git is unknown; one that fails comes first.
func (m *maker) syncWithUnknownNewest() (found OtherSync, any bool) {
	return m.firstOf(OtherSync.newestUnknown)
}

// syncWithUnknownContent returns one whose Git has not been read since the daemon started.
func (m *maker) syncWithUnknownContent() (found OtherSync, any bool) {
	return m.firstOf(OtherSync.contentUnknown)
}

func (m *maker) firstOf(is func(OtherSync) bool) (found OtherSync, any bool) {
	for _, other := range m.policy.OtherSyncs {
		if is(other) && (!any || found.Failure == "" && other.Failure != "") {
			found, any = other, true
		}
	}
	return found, any
}

// adoptFromOther decides on an object that another NodeSync has applied. It is handed over once that NodeSync's Git no
// longer contains it.
func (m *maker) adoptFromOther(change *Change, j comparedFields, other OtherSync) {
	switch {
	case other.newestUnknown():
		change.await(other)
		change.Message = fmt.Sprintf("%s belongs to NodeSync %s: waiting for %s", change.Ref, other.Owner, other.waiting())
	case !other.Known || other.has(change.Ref):
		change.conflict(ReasonOtherSync, &ConflictError{Ref: change.Ref, Owner: other.String()})
	case j.foreign != nil:
		change.conflict(ReasonOtherApplier, &ConflictError{Ref: change.Ref, Tools: j.tools, Fields: paths(j.foreign)})
	default:
		change.Action, change.Reason, change.Force = Adopt, ReasonHandedOver, true
		if j.leftByRemoval || j.leftByBrake {
			change.Action = TakeBack // its removal had started, or its rollout was stopped
		}
		change.Message = fmt.Sprintf("%s is handed over by NodeSync %s, whose Git no longer contains it", change.Ref, other.Owner)
	}
}

// await makes a Change wait for another NodeSync.
func (c *Change) await(other OtherSync) {
	c.Action, c.Reason, c.WaitsFor, c.WaitsSince = Wait, ReasonOtherSync, "NodeSync/"+other.Name, other.Since
}

// relabel decides on an object in Git whose label another client has overwritten. If another NodeSync also contains it,
// it is unknown whose it was.
func (m *maker) relabel(change *Change, j comparedFields) {
	other, wanted := m.wantedBy(change.Ref)
	waitsFor, newestUnknown := m.syncWithUnknownNewest()
	switch {
	case wanted:
		change.conflict(ReasonOtherSync, &ConflictError{Ref: change.Ref, Owner: other.String()})
	case newestUnknown:
		change.await(waitsFor)
		change.Message = fmt.Sprintf("another client changed the label %s of %s: waiting for %s",
			v1alpha1.OwnerLabel, change.Ref, waitsFor.waiting())
	case j.foreign != nil:
		change.conflict(ReasonOtherApplier, &ConflictError{Ref: change.Ref, Tools: j.tools, Fields: paths(j.foreign)})
	default:
		change.update(j)
	}
}

// Owner is the NodeSync that an object belongs to. Its label on each object is the inventory.
type Owner struct {
	Namespace, Name string
}

// OwnerOf returns a NodeSync as an owner.
func OwnerOf(namespace, name string) Owner { return Owner{Namespace: namespace, Name: name} }

// String returns namespace/name.
func (o Owner) String() string { return o.Namespace + "/" + o.Name }

// keptPrefix is the length of the prefix that is kept of a name that is too long for a label, before the hash of the
// whole name: 52 + "-" + 10 is the limit of 63.
const keptPrefix = 52

// Label returns the value of the ownership label, and the annotation of the same key, which is empty if the label
// contains the whole name.
func (o Owner) Label() (label, annotation string) {
	full := o.Namespace + "." + o.Name
	if len(full) <= validation.LabelValueMaxLength {
		return full, ""
	}
	sum := sha256.Sum256([]byte(full))
	return full[:keptPrefix] + "-" + hex.EncodeToString(sum[:])[:10], full
}

// Owns reports whether an object has the owner's label.
func (o Owner) Owns(object metav1.Object) bool {
	return o.named(object.GetLabels()[v1alpha1.OwnerLabel], object.GetAnnotations()[v1alpha1.OwnerLabel])
}

// OwnerNamed returns the NodeSync in the ownership label of an object; ok is false if there is none. It does not check
// whether plumbline wrote the label.
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

// LabelAgain returns the end of a message about an object whose ownership label was changed by hand: the consequence,
// and what to do.
func (o Owner) LabelAgain() string {
	label, _ := o.Label()
	return fmt.Sprintf("so plumbline does not remove it: set the label back to %s, or, to keep the object, delete ConfigMap %s",
		label, v1alpha1.AppliedName(o.Name))
}

// adopt decides on an object that exists without an owner.
func (m *maker) adopt(change *Change, j comparedFields) {
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
		// Nothing of it changes, so force is not needed: if another client writes to it in between, the API server
		// reports a conflict.
		change.Action, change.Reason, change.Takeover, change.Taken = Adopt, ReasonUnowned, false, nil
		change.Message = fmt.Sprintf("%s exists without an owner and matches Git: plumbline adds its label", change.Ref)
	}
}

// ReasonOrphan is the reason to hold an object that would be orphaned, until people approve that.
const ReasonOrphan = "Orphan"

// orphans holds what would be orphaned until people have approved that: nothing would manage its nodes. No node
// terminates, so no limit of the guard applies.
func orphans(c Candidate, w checkInput) (reason, message string, hold bool) {
	if c.approved.covers(ReasonOrphan) {
		return "", "", false
	}
	if c.Keeper != "" {
		return ReasonOrphan, fmt.Sprintf("%s was removed from Git, but %s: plumbline does not delete it, and its nodes keep running; approve that no NodeSync manages it, or add it back to Git", c.Ref, c.Keeper), true
	}
	return ReasonOrphan, fmt.Sprintf("removal.strategy is Orphan: %s stays in the cluster, its nodes keep running, and no NodeSync manages it: approve that, add it back to Git, or set another strategy", c.Ref), true
}

// keptBecause returns the clause that Flux or Argo CD applies an object as well, or that an annotation keeps it when it
// is removed from a source: it is being handed over, so plumbline must not remove it. Otherwise it is empty.
func keptBecause(object *Object) string {
	if by, ok := appliedBesides(object); ok {
		return "is applied by " + by.String()
	}
	if mark, ok := owners.Kept(object); ok {
		return fmt.Sprintf("is annotated with %q", mark)
	}
	return ""
}

// appliedBesides returns the tool whose labels or annotations an object has.
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

// IsOrphaned reports whether an owner has orphaned an object, and nothing has adopted it since.
func (o *Object) IsOrphaned(by Owner) bool {
	label, _ := by.Label()
	return o.owner == "" && o.GetLabels()[v1alpha1.OrphanedLabel] == label
}

// Orphaned returns the NodePools with nodes that an owner no longer manages, and that no other tool applies, by name.
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
