package conclude

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
)

// mayBeLost are the fields of a status that the least of one does not have, as the next pass finds
// what they say again.
func mayBeLost() []string {
	return []string{
		"Conditions", // but for those that say so
		"Drift",
		"Held.Message",
		"Instances",
		"OrphanedNodes",
		"Removals.Message",
		"Rollout.Message",
		"Stages",
		"StalledTerminations",
		"Terminations",
		"Waiting",
	}
}

// kept are those that it has: a pass goes by them, and finds them nowhere else.
func kept() []string {
	return []string{
		"ReconcileRequestStatus",
		"ObservedGeneration",
		"LastAttemptedRevision",
		"LastAppliedRevision",
		"PartlyAppliedRevision",
		"LastAppliedInputs",
		"Artifacts",
		"Withheld",
		"UsedReleases",
		"Held",
		"Approved",
		"UsedApprovals",
		"UsedGitApprovals",
		"LastVerified",
		"Karpenter",
		"Rollout",
		"PoolRollouts",
		"LaunchFailing",
		"Removals",
		"RecentRemovals",
		"RecentTerminations",
		"OpenRemovals",
		"Reported",
		"Notified",
	}
}

// TestTheLeastOfAStatusHasItsRecords: whoever adds a field to the status says here whether it may be lost
// while the API server refuses the whole of it.
func TestTheLeastOfAStatusHasItsRecords(t *testing.T) {
	whole := v1alpha1.NodeSyncStatus{}
	occupy(t, reflect.ValueOf(&whole).Elem(), "status")
	s := &Step{Sync: &v1alpha1.NodeSync{}, Before: &v1alpha1.NodeSync{Status: *whole.DeepCopy()}, Memory: &Memory{}}
	s.Fault = fault.StatusNotWritten(errors.New("it is too large"))
	is := whole.DeepCopy()
	least := s.least(*is, is.Removals)

	lost := differing(reflect.ValueOf(whole), reflect.ValueOf(least), "")
	slices.Sort(lost)
	if diff := cmp.Diff(mayBeLost(), lost); diff != "" {
		t.Errorf("lost (-want +got):\n%s", diff)
	}
	known := append(kept(), mayBeLost()...)
	for i := range reflect.TypeFor[v1alpha1.NodeSyncStatus]().NumField() {
		if name := reflect.TypeFor[v1alpha1.NodeSyncStatus]().Field(i).Name; !slices.Contains(known, name) {
			t.Errorf("nobody says whether %s is kept or may be lost", name)
		}
	}
}

// occupy gives a value another one than the zero value to each of its fields, however deep.
func occupy(t *testing.T, v reflect.Value, path string) {
	t.Helper()
	if v.Type() == reflect.TypeFor[metav1.Time]() {
		v.Set(reflect.ValueOf(metav1.NewTime(time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC))))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			occupy(t, v.Field(i), path+"."+v.Type().Field(i).Name)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		occupy(t, v.Index(0), path)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		occupy(t, v.Elem(), path)
	case reflect.String:
		v.SetString("words")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	default:
		t.Fatalf("%s is a %s, which this test does not know", path, v.Type())
	}
}

// differing are the fields in which two values differ, the outermost that are there in one of them only.
func differing(a, b reflect.Value, path string) []string {
	if reflect.DeepEqual(a.Interface(), b.Interface()) {
		return nil
	}
	switch {
	case a.Type() == reflect.TypeFor[metav1.Time]():
	case a.Kind() == reflect.Struct:
		var fields []string
		for i := range a.NumField() {
			name := a.Type().Field(i).Name
			if path != "" {
				name = path + "." + name
			}
			fields = append(fields, differing(a.Field(i), b.Field(i), name)...)
		}
		return fields
	case a.Kind() == reflect.Slice && a.Len() == 1 && b.Len() == 1:
		return differing(a.Index(0), b.Index(0), path)
	case a.Kind() == reflect.Pointer && !a.IsNil() && !b.IsNil():
		return differing(a.Elem(), b.Elem(), path)
	}
	return []string{path}
}
