package plan

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dustin/go-humanize/english"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// Reasons of Changes.
const (
	ReasonMissing      = "Missing"
	ReasonDiffers      = "Differs"
	ReasonOwnership    = "Ownership"
	ReasonUnowned      = "Unowned"
	ReasonReturned     = v1alpha1.ReasonReturned
	ReasonBrakeEnds    = "BrakeEnds"
	ReasonTerminating  = "Terminating"
	ReasonRecreated    = "Recreated"
	ReasonClassMissing = "ClassMissing"
	ReasonClassNotMade = "ClassNotMade"
	ReasonOtherSync    = "OtherNodeSync"
	ReasonHandedOver   = "HandedOver"
	ReasonOtherApplier = "OtherApplier"
	ReasonNotAdopted   = "NotAdopted"
	ReasonImmutable    = "Immutable"
	ReasonInvalid      = "Invalid"
)

// decision is what to do with one object.
type decision struct {
	change Change
	// clean reports whether the object matches Git.
	clean bool
	// extra are its fields that are not in Git; nil if there are none.
	extra *Extra
	// compared is the result of the comparison; nil if the object was not compared.
	compared *compared
}

// unchanged returns the Change of an object that matches Git. live is the object in the cluster; nil if there is none.
func unchanged(object render.Object, live *unstructured.Unstructured) Change {
	return Change{Ref: object.Ref, Action: None, Effect: EffectNone, Object: object, Live: live}
}

// decide decides what to do with one object of the Set. It writes nothing that other decisions read.
func (m *maker) decide(ctx context.Context, object render.Object) (decision, error) {
	d := decision{change: unchanged(object, m.live.object(object.Ref).content())}
	change := &d.change
	if change.Live == nil {
		m.create(change)
	} else if err := m.compare(ctx, &d); err != nil {
		return d, err
	}
	if change.Action.Writes() {
		m.needClass(change)
	}
	ends := change.Reason == ReasonBrakeEnds
	change.Rescue = m.rescues(change)
	change.Drift = change.Action != None && change.Reason != ReasonHandedOver && !ends && !change.Rescue && !m.newInGit(object, d.compared)
	if last := m.policy.Applied[object.Ref]; last != nil && !change.Drift {
		change.editedSince(last, d.compared)
	}
	if m.reported(change) {
		change.Action = Drifted
	}
	if change.Action != None && (!ends || !onlyTheBrake(change)) {
		m.effect(change, d.compared)
		m.holdUnpublished(change)
	}
	return d, nil
}

// reported reports whether a Change is drift that is reported but not corrected.
func (m *maker) reported(change *Change) bool {
	corrects := change.Action == Create || change.Action == Update || change.Action == Adopt
	return corrects && m.policy.Drift == v1alpha1.DriftReport && change.Drift
}

// newInGit reports whether Git has changed an object since the object last matched it. found is the result of its
// comparison; nil if it was not compared.
func (m *maker) newInGit(object render.Object, found *compared) bool {
	before, known := m.policy.Applied[object.Ref]
	switch {
	case !known:
		return m.policy.NewRevision
	case found == nil:
		return !sameMeaning(before, object.Defaulted)
	case found.before != before:
		found.before, found.differs = before, !sameMeaning(before, object.Defaulted)
	}
	return found.differs
}

// known returns what the last Plan found for these objects, if it found them equal. An object that is being removed
// always needs a new decision.
func (m *maker) known(object *render.Object) (cleanObject, bool) {
	live := m.live.object(object.Ref)
	if live == nil {
		return cleanObject{}, false
	}
	known, ok := m.live.Memo.findClean(object, live, m.policy.Owner, m.schema)
	return known, ok && !m.isBeingRemoved(known.uid) && !m.policy.limited(object.Ref.Name)
}

func (m *maker) create(change *Change) {
	if change.Ref.Kind == render.NodePool && slices.Contains(m.live.AutoMode, change.Ref.Name) {
		err := &RefusedError{
			Ref: change.Ref, Origin: change.Object.Origin, Immutable: true,
			Problems: []string{"AWS manages a NodePool of this name for EKS Auto Mode"},
		}
		change.Action, change.Reason, change.Message, change.Err = Refuse, ReasonImmutable, err.Error(), err
		return
	}
	change.Action, change.Reason = Create, ReasonMissing
	change.Message = fmt.Sprintf("%s is not in the cluster", change.Ref)
	if m.policy.Offline {
		change.Message = fmt.Sprintf("%s is created", change.Ref)
	}
}

// compare decides on an object that exists.
func (m *maker) compare(ctx context.Context, d *decision) error {
	change := &d.change
	if terminating(change.Live) {
		change.Action, change.Reason, change.WaitsFor = Wait, ReasonTerminating, change.Ref.String()
		change.Message = fmt.Sprintf("%s is terminating and will be recreated once deleted", change.Ref)
		if n := len(m.claims()[change.Ref]); n > 0 {
			change.Message += fmt.Sprintf("; %d %s it", n, english.PluralWord(n, "NodeClaim still references", "NodeClaims still reference"))
		}
		if r := m.rescueOf(change.Ref); r != nil {
			change.Message += fmt.Sprintf("; %s %s %s instead",
				english.WordSeries(refNames(r.Pools), "and"), english.PluralWord(len(r.Pools), "references", "reference"), r.By)
		}
		return nil
	}
	live := m.live.object(change.Ref)
	var err error
	if change.Braked, err = m.braked(change.Object, change.Live); err != nil {
		return err
	}
	found, err := m.compareOnce(change.Object, live, change.Braked)
	if err != nil {
		return err
	}
	j := found.fields
	d.compared, change.texts = found, found.texts
	change.note(j)
	d.extra = extraOf(change.Ref, j.extra)
	m.choose(d, j, live)
	m.settle(change)
	if change.Action.Writes() {
		m.refuse(ctx, change, found)
	}
	return nil
}

// choose decides what to do with an object that exists, by its owner and its differences.
func (m *maker) choose(d *decision, j comparedFields, live *Object) {
	change, leaving := &d.change, m.removalStarted(d.change.Live)
	owner, other := m.ownership(live)
	switch {
	case owner == ownedByOther:
		m.adoptFromOther(change, j, other)
	case owner == relabelled && !leaving:
		m.relabel(change, j)
	case !leaving && owner != ownedByUs:
		m.adopt(change, j)
		change.unorphan()
	case j.foreign != nil:
		change.conflict(ReasonOtherApplier, &ConflictError{Ref: change.Ref, Tools: j.tools, Fields: paths(j.foreign)})
	case leaving || j.leftByRemoval:
		change.Action, change.Reason, change.Force = TakeBack, ReasonReturned, true
		change.Message = m.revertReason(change)
		change.Restores = m.asRecorded(change)
	case j.leftByBrake && !m.policy.limited(change.Ref.Name):
		change.Action, change.Reason, change.Force = TakeBack, ReasonBrakeEnds, true
		change.Message = fmt.Sprintf("the disruption budgets of %s are restored from Git", change.Ref)
		change.Restores = onlyTheBrake(change)
	case !j.clean():
		change.update(j)
	default:
		d.clean = true
	}
}

// revertReason returns why the removal of an object is reverted.
func (m *maker) revertReason(change *Change) string {
	if r, _ := m.live.removal(change.Live.GetUID()); m.undecided(r) {
		return fmt.Sprintf("the drain of %s is reverted: Karpenter may launch its nodes again", change.Ref)
	}
	return fmt.Sprintf("%s is in Git again: its removal is reverted", change.Ref)
}

// note keeps the results for readers of the Plan.
func (c *Change) note(j comparedFields) {
	c.differences = slices.Concat(j.change, j.foreign)
	for _, d := range c.differences {
		c.Fields = append(c.Fields, d.fields()...)
	}
	for _, d := range j.edited {
		c.Edited = append(c.Edited, d.fields()...)
	}
	c.Editors = j.editors
	c.Takeover, c.Taken, c.rewritten = j.takeover, j.taken, j.rewritten
	c.wanted = j.wanted
}

func (c *Change) update(j comparedFields) {
	c.Action, c.Reason, c.Force = Update, ReasonDiffers, true
	if len(c.Fields) == 0 {
		c.Reason = ReasonOwnership
		c.Message = fmt.Sprintf("%s matches Git, but another field manager owns some of its fields", c.Ref)
		return
	}
	c.Message = fmt.Sprintf("%s differs at %s", c.Ref, someOf(paths(j.change)))
}

func (c *Change) conflict(reason string, err *ConflictError) {
	c.Action, c.Reason, c.Message, c.Err = Conflict, reason, err.Error(), err
}

// removalStarted reports whether a removal of this object has started.
func (m *maker) removalStarted(live *unstructured.Unstructured) bool {
	return m.isBeingRemoved(live.GetUID())
}

func (m *maker) isBeingRemoved(uid types.UID) bool {
	r, ok := m.live.removal(uid)
	return ok && r.Phase != v1alpha1.RemovalHeld
}

func paths(differences []difference) []string {
	found := make([]string, 0, len(differences))
	for _, d := range differences {
		found = append(found, name(d.path))
	}
	return found
}

// Object is a live object, read only. The values that every reconcile reads from thousands of objects are copied to
// fields: looking them up in the content costs more than anything else for an object that has not changed.
type Object struct {
	*unstructured.Unstructured

	name            string
	uid             types.UID
	resourceVersion string
	deleted         *metav1.Time
	generation      int64
	conditions      []metav1.Condition
	owner, note     string

	read   sync.Once
	marked mark
	madeBy atomic.Pointer[madeBy]
}

// NewObject wraps an object.
func NewObject(object *unstructured.Unstructured) *Object {
	return &Object{
		Unstructured: object,
		name:         object.GetName(), uid: object.GetUID(), resourceVersion: object.GetResourceVersion(),
		deleted:    object.GetDeletionTimestamp(),
		generation: object.GetGeneration(), conditions: conditionsOf(object),
		owner: ownerMark(object, "labels"), note: ownerMark(object, "annotations"),
	}
}

// NewObjects wraps objects.
func NewObjects(objects map[render.Ref]*unstructured.Unstructured) map[render.Ref]*Object {
	read := make(map[render.Ref]*Object, len(objects))
	for ref, object := range objects {
		read[ref] = NewObject(object)
	}
	return read
}

// GetName returns the name of the object.
func (o *Object) GetName() string { return o.name }

// GetUID returns the UID of the object.
func (o *Object) GetUID() types.UID { return o.uid }

// GetResourceVersion returns the resourceVersion of the object.
func (o *Object) GetResourceVersion() string { return o.resourceVersion }

// GetDeletionTimestamp returns the deletionTimestamp of the object.
func (o *Object) GetDeletionTimestamp() *metav1.Time { return o.deleted }

// GetGeneration returns the generation of the object.
func (o *Object) GetGeneration() int64 { return o.generation }

// Conditions returns the conditions of its status that the watch cache keeps.
func (o *Object) Conditions() []metav1.Condition { return o.conditions }

// OwnerLabel returns the value of its ownership label.
func (o *Object) OwnerLabel() string { return o.owner }

// ownerMark reads the ownership label, or the annotation of the same key, without copying all of them.
func ownerMark(object *unstructured.Unstructured, among string) string {
	value, _, _ := unstructured.NestedString(object.Object, "metadata", among, v1alpha1.OwnerLabel)
	return value
}

func conditionsOf(obj *unstructured.Unstructured) []metav1.Condition {
	value, _, err := unstructured.NestedFieldNoCopy(obj.Object, "status", "conditions")
	if err != nil {
		return nil
	}
	list, _ := value.([]any)
	var all []metav1.Condition
	for _, c := range list {
		fields, ok := c.(map[string]any)
		if !ok {
			continue
		}
		kind, _, _ := unstructured.NestedString(fields, "type")
		status, _, _ := unstructured.NestedString(fields, "status")
		reason, _, _ := unstructured.NestedString(fields, "reason")
		message, _, _ := unstructured.NestedString(fields, "message")
		observed, _, _ := unstructured.NestedInt64(fields, "observedGeneration")
		all = append(all,
			metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: message, ObservedGeneration: observed})
	}
	return all
}

// content returns the content of the object; nil if the object is nil.
func (o *Object) content() *unstructured.Unstructured {
	if o == nil {
		return nil
	}
	return o.Unstructured
}

// terminating reports whether an object is deleted but still exists.
func terminating(object interface{ GetDeletionTimestamp() *metav1.Time }) bool {
	return object.GetDeletionTimestamp() != nil
}

// entry is one entry of managedFields with its set decoded.
type entry struct {
	manager string
	applied bool
	set     *fieldpath.Set
}

// managed decodes the managedFields of an object; those of subresources are left out.
func managed(object *unstructured.Unstructured) ([]entry, error) {
	var entries []entry
	for _, written := range object.GetManagedFields() {
		if written.Subresource != "" {
			continue
		}
		set, err := fieldsOf(written.FieldsV1)
		if err != nil {
			return nil, fmt.Errorf("read managedFields of manager %q on %s/%s: %w", written.Manager, object.GetKind(), object.GetName(), err)
		}
		entries = append(entries, entry{
			manager: written.Manager,
			applied: written.Operation == metav1.ManagedFieldsOperationApply,
			set:     set,
		})
	}
	return entries, nil
}

// appliedBy returns the set that a manager has applied; nil if there is none.
func appliedBy(entries []entry, manager string) *fieldpath.Set {
	for _, e := range entries {
		if e.applied && e.manager == manager {
			return e.set
		}
	}
	return nil
}

// Applied reports whether plumbline has applied the object. A copy of our object has the label, but no such entry.
func Applied(object *unstructured.Unstructured) bool {
	for _, written := range object.GetManagedFields() {
		if written.Manager == v1alpha1.FieldManager && written.Operation == metav1.ManagedFieldsOperationApply && written.Subresource == "" {
			return true
		}
	}
	return false
}

// touches reports whether a set contains a field, something within it, or a value that the field is part of.
func touches(set *fieldpath.Set, path []string) bool {
	for i := range path {
		element := fieldpath.PathElement{FieldName: &path[i]}
		below := set.WithPrefix(element)
		if below.Empty() {
			// Either a leaf of the set that contains the field, or nothing.
			return set.Members.Has(element)
		}
		set = below
	}
	return true
}
