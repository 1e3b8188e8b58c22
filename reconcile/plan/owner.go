package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

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
// of the same key, which is empty where the label holds the whole name.
func (o Owner) Label() (label, annotation string) {
	full := o.Namespace + "." + o.Name
	if len(full) <= validation.LabelValueMaxLength {
		return full, ""
	}
	sum := sha256.Sum256([]byte(full))
	return full[:shortened] + "-" + hex.EncodeToString(sum[:])[:10], full
}

// Owns says whether an object bears the owner's label.
func (o Owner) Owns(object metav1.Object) bool {
	return o.named(object.GetLabels()[v1alpha1.OwnerLabel], object.GetAnnotations()[v1alpha1.OwnerLabel])
}

// OwnerNamed is the NodeSync that the ownership label of an object names; ok is false where there is none.
// Whether plumbline has written it there is another question.
func OwnerNamed(object metav1.Object) (owner Owner, ok bool) {
	label := cmp.Or(object.GetAnnotations()[v1alpha1.OwnerLabel], object.GetLabels()[v1alpha1.OwnerLabel])
	owner.Namespace, owner.Name, ok = strings.Cut(label, ".")
	return owner, ok
}

// named says whether a label and an annotation, which may be empty, name the owner.
func (o Owner) named(label, annotation string) bool {
	want, whole := o.Label()
	return label == want && (whole == "" || annotation == "" || annotation == whole)
}

// LabelAgain ends the sentence on an object whose ownership label was changed by hand: what
// follows from it, and what to do.
func (o Owner) LabelAgain() string {
	label, _ := o.Label()
	return fmt.Sprintf("so that it is not removed: set the label to %s again, or, to keep the object, delete ConfigMap %s", label, v1alpha1.AppliedName(o.Name))
}
