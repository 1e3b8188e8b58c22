package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Definition is a digest of an object's spec. Fields that a CRD has defaults for are there in
// what lives, and in render.Object's Defaulted.
func Definition(object *unstructured.Unstructured) string {
	sum := sha256.Sum256([]byte(canonical(object.Object["spec"])))
	return hex.EncodeToString(sum[:])
}

// asRecorded says whether Git has an entry again just as it lived when its removal was recorded.
// Where that is not known it counts as changed: a commit that takes a pool out and the next
// that brings another of its name pass neither guard nor policies by that.
func (m *maker) asRecorded(change *Change) bool {
	record, recorded := m.live.removal(change.Live.GetUID())
	return recorded && record.Definition != "" && record.Definition == Definition(change.Object.Defaulted)
}

// onlyTheBrake says whether the brake goes from a NodePool, and nothing else becomes other than
// it was with it.
func onlyTheBrake(change *Change) bool {
	return change.onlyBudgets() && reflect.DeepEqual(WithoutBrake(change.Live), BudgetsOf(change.Object.Defaulted))
}
