package plan

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Drifts returns the fields in which another client has changed the object of a Change, from what is in the cluster to
// Git's value, and whether it has changed or deleted the object. That is drift whatever else a commit changes in the
// object, and whether the Change is written, waits, is held or is refused: until it is written, the edit stays in the
// cluster. If the object was deleted, there are no fields and Live is nil.
func (p *Plan) Drifts(c *Change) (fields []Field, drifts bool) {
	switch {
	case c.Live != nil && terminating(c.Live), // it is recreated
		c.Reason == ReasonOwnership,
		c.leftByRemoval() && len(c.Editors) == 0,
		c.Action == Wait && c.Reason == ReasonOtherSync && c.Live != nil && !p.has(c.Live):
		return nil, false
	case c.Drift:
		return c.Fields, true
	case c.Live == nil:
		return nil, c.Deleted
	}
	return c.Edited, len(c.Edited) > 0 && p.has(c.Live)
}

// leftByRemoval reports whether a removal or a drain has changed the object, and a Change reverts or continues it.
func (c *Change) leftByRemoval() bool {
	return c.Reason == ReasonReturned || c.Reason == ReasonSettling || c.Reason == ReasonRecreated
}

// has reports whether an object belongs to the NodeSync of the Plan, which has applied it.
func (p *Plan) has(live *unstructured.Unstructured) bool {
	owner, named := OwnerNamed(live)
	return named && owner.String() == p.NodeSync && Applied(live)
}

// editedSince determines what another client has done to an object that a commit changes, given its definition when it
// last matched Git. found is the comparison; nil if the object was not compared.
func (c *Change) editedSince(last *unstructured.Unstructured, found *compared) {
	c.Deleted = c.Live == nil
	if found == nil {
		return
	}
	c.Edited = nil
	for _, d := range found.fields.editedSince(last) {
		c.Edited = append(c.Edited, d.fields()...)
	}
	if len(c.Edited) == 0 {
		c.Editors = nil
	}
}

// editedSince returns the differences that another client has made since the object was last like this. A field that it
// has removed has no manager. One that it owns with the same value as before is no edit.
func (j comparedFields) editedSince(last *unstructured.Unstructured) []difference {
	var found []difference
	for _, d := range j.change {
		before, had, err := unstructured.NestedFieldNoCopy(last.Object, d.path...)
		had = had && err == nil
		was := had && equal(meaning(d.path, d.from), meaning(d.path, before))
		if d.from == nil && had || d.from != nil && j.isEdited(d) && !was {
			found = append(found, d)
		}
	}
	return found
}

// isEdited reports whether a manager other than ours owns the field of a difference.
func (j comparedFields) isEdited(d difference) bool {
	return slices.ContainsFunc(j.edited, func(e difference) bool { return slices.Equal(e.path, d.path) })
}

// remainingEdits returns the end of the message about a Change that is not written now: the edits that stay until then;
// empty if there are none.
func (c *Change) remainingEdits() string {
	if len(c.Edited) == 0 {
		return ""
	}
	by := "another client"
	if len(c.Editors) > 0 {
		by = strings.Join(c.Editors, ", ")
	}
	return fmt.Sprintf("; until then the edits by %s to %s are not reverted", by, c.Ref)
}
