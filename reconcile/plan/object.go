package plan

import (
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// Object is a live object. It is read only, and what every pass asks of each of thousands is
// beside its fields: to look for it in them costs more than all else that is done with an
// object that has not changed.
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

// NewObject reads an object.
func NewObject(object *unstructured.Unstructured) *Object {
	return &Object{
		Unstructured: object,
		name:         object.GetName(), uid: object.GetUID(), resourceVersion: object.GetResourceVersion(), deleted: object.GetDeletionTimestamp(),
		generation: object.GetGeneration(), conditions: conditionsOf(object),
		owner: ownerMark(object, "labels"), note: ownerMark(object, "annotations"),
	}
}

// NewObjects reads objects.
func NewObjects(objects map[render.Ref]*unstructured.Unstructured) map[render.Ref]*Object {
	read := make(map[render.Ref]*Object, len(objects))
	for ref, object := range objects {
		read[ref] = NewObject(object)
	}
	return read
}

// GetName is that of the object.
func (o *Object) GetName() string { return o.name }

// GetUID is that of the object.
func (o *Object) GetUID() types.UID { return o.uid }

// GetResourceVersion is that of the object.
func (o *Object) GetResourceVersion() string { return o.resourceVersion }

// GetDeletionTimestamp is that of the object.
func (o *Object) GetDeletionTimestamp() *metav1.Time { return o.deleted }

// GetGeneration is that of the object.
func (o *Object) GetGeneration() int64 { return o.generation }

// Conditions are those of its status, as far as the watch cache keeps them.
func (o *Object) Conditions() []metav1.Condition { return o.conditions }

// OwnerLabel is the value of its ownership label.
func (o *Object) OwnerLabel() string { return o.owner }

// ownerMark reads it, or the annotation of the same key, without a copy of all.
func ownerMark(object *unstructured.Unstructured, among string) string {
	value, _, _ := unstructured.NestedString(object.Object, "metadata", among, v1alpha1.OwnerLabel)
	return value
}

// conditionsOf reads conditions.
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
		all = append(all, metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: message, ObservedGeneration: observed})
	}
	return all
}

// content is the object's fields, where there is one.
func (o *Object) content() *unstructured.Unstructured {
	if o == nil {
		return nil
	}
	return o.Unstructured
}

// terminating says whether an object was deleted and is there still.
func terminating(object interface{ GetDeletionTimestamp() *metav1.Time }) bool {
	return object.GetDeletionTimestamp() != nil
}
