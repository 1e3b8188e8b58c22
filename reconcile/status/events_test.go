package status

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
)

const secret = "hunter2hunter2"

// TestWhatWasHiddenStaysHidden shows that the previous secrets stay hidden after the next change: errors of the
// previous controller may still be reported.
func TestWhatWasHiddenStaysHidden(t *testing.T) {
	m := &Memory{}
	for _, secret := range []string{"first-one", "second-one", "second-one"} {
		m.HideValues([]string{secret})
	}
	if got := m.Hide("first-one second-one"); got != "*** ***" {
		t.Errorf("the same once more: %q", got)
	}
	m.HideValues([]string{"third-one"})
	if got := m.Hide("first-one second-one third-one"); got != "first-one *** ***" {
		t.Errorf("after a change: %q", got)
	}
}

// fill puts a text into every string and every error of a value, at any depth, and returns the fields that lead to
// each; those of names separately.
func fill(t *testing.T, v reflect.Value, path, text string, isName bool) (words, names []string) {
	t.Helper()
	add := func() ([]string, []string) {
		if isName {
			return nil, []string{path}
		}
		return []string{path}, nil
	}
	switch {
	case v.Type() == reflect.TypeFor[*fault.Error]():
		v.Set(reflect.ValueOf(&fault.Error{Class: fault.Terminal, Reason: "Failed", Err: errors.New(text)}))
		return add()
	case v.Type() == reflect.TypeFor[error]():
		v.Set(reflect.ValueOf(errors.New(text)))
		return add()
	case v.Type() == reflect.TypeFor[string]():
		v.SetString(text)
		return add()
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() {
				continue // inside a time
			}
			w, n := fill(t, v.Field(i), path+"."+f.Name, text, isName || f.Tag.Get("redact") == notRedacted)
			words, names = append(words, w...), append(names, n...)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		return fill(t, v.Index(0), path, text, isName)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return fill(t, v.Elem(), path, text, isName)
	case reflect.Map:
		if v.Type().Elem().Kind() == reflect.String {
			t.Errorf("%s is a map with words, which nothing redacts", path)
		}
	case reflect.Bool, reflect.Int, reflect.Int32, reflect.Int64, reflect.String:
	default:
		t.Errorf("%s is a %s, which nothing redacts", path, v.Type())
	}
	return words, names
}

// read returns the current values of what fill has set.
func read(v reflect.Value, path string, into map[string]string) {
	switch {
	case v.Type() == reflect.TypeFor[*fault.Error](), v.Type() == reflect.TypeFor[error]():
		into[path] = v.Interface().(error).Error()
		return
	case v.Type() == reflect.TypeFor[string]():
		into[path] = v.String()
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				read(v.Field(i), path+"."+f.Name, into)
			}
		}
	case reflect.Slice:
		read(v.Index(0), path, into)
	case reflect.Pointer:
		read(v.Elem(), path, into)
	}
}

// TestEveryFindingIsRedacted shows that every field of Found is redacted, unless its tag marks it as a name.
func TestEveryFindingIsRedacted(t *testing.T) {
	s := &Step{Sync: &v1alpha1.NodeSync{}, Before: &v1alpha1.NodeSync{}, Memory: &Memory{}}
	words, names := fill(t, reflect.ValueOf(&s.Found).Elem(), "Found", "it is "+secret, false)
	if len(words) < 15 || len(names) < 5 {
		t.Fatalf("filled %d words and %d names only", len(words), len(names))
	}
	s.Memory.HideValues([]string{secret})
	s.Redact()
	got := map[string]string{}
	read(reflect.ValueOf(&s.Found).Elem(), "Found", got)
	for _, path := range words {
		if strings.Contains(got[path], secret) || !strings.Contains(got[path], "***") {
			t.Errorf("%s: %q", path, got[path])
		}
	}
	for _, path := range names {
		if got[path] != "it is "+secret {
			t.Errorf("%s names something, and became %q", path, got[path])
		}
	}
}

// statusNames are the texts of a status that identify something, or that contain no message: removals and upgrades
// depend on them. Every other text must be redacted.
func statusNames() []string {
	return []string{
		"status.ReconcileRequestStatus.LastHandledReconcileAt",
		"status.Conditions.Type",
		"status.Conditions.Reason",
		"status.LastAttemptedRevision",
		"status.LastAppliedRevision",
		"status.LastAppliedInputs",
		"status.PartlyAppliedInputs",
		"status.PartlyAppliedRevision",
		"status.Withheld.Reason",
		"status.Withheld.Revision",
		"status.Withheld.From",
		"status.Held.WeighedBy",
		"status.Approved.WeighedBy",
		"status.Removals.Growth.CPU",
		"status.LastVerified.Revision",
		"status.LastVerified.Object",
		"status.LastVerified.Signer",
		"status.LastVerified.Newer.Revision",
		"status.LastVerified.URL",
		"status.LastVerified.Secret",
		"status.Karpenter.Management",
		"status.Karpenter.Version",
		"status.Karpenter.Namespace",
		"status.Karpenter.Cluster",
		"status.Karpenter.Region",
		"status.Karpenter.ClusterARN",
		"status.Karpenter.Identity",
		"status.Karpenter.CRDs.Version",
		"status.Karpenter.CRDs.Digest",
		"status.Karpenter.Controller.Version",
		"status.Karpenter.Controller.Digest",
		"status.Karpenter.Charts.Repository",
		"status.Karpenter.Charts.CRDDigest",
		"status.Karpenter.Charts.Digest",
		"status.Karpenter.Target.Charts.Repository",
		"status.Karpenter.Target.Charts.CRDDigest",
		"status.Karpenter.Target.Charts.Digest",
		"status.Karpenter.Target.Version",
		"status.Karpenter.Target.Identity",
		"status.Karpenter.NodeDrift.From",
		"status.Karpenter.NodeDrift.To",
		"status.Stages.Name",
		"status.Rollout.Revision",
		"status.Drift.Kind",
		"status.Drift.Name",
		"status.Waiting.For",
		"status.Promotion.Taken",
		"status.Promotion.By",
		"status.Promotion.EmergencySigner",
		"status.Promotion.Waits.Commit",
		"status.Promotion.Waits.Reason",
		"status.Promotion.Waits.Ring",
		"status.Promotion.Serials.Cluster",
		"status.Promotion.Serials.NodeSync",
		"status.Promotion.RecordRef",
		"status.Removals.Kind",
		"status.Removals.Name",
		"status.Removals.Revision",
		"status.Removals.Reason",
		"status.Removals.Definition",
		"status.Removals.Approved",
		"status.Held.Digest",
		"status.Held.Outcome",
		"status.Held.Summary", // only numbers
		"status.Held.Entries.Kind",
		"status.Held.Entries.Name",
		"status.Held.Entries.Definition",
		"status.Held.Entries.UnschedulablePods.Workload",
		"status.Held.Approvers", // nothing else records who it was
		"status.Approved.Digest",
		"status.Approved.By",
		"status.Approved.Entries.Kind",
		"status.Approved.Entries.Name",
		"status.Approved.Entries.Definition",
		"status.Approved.Entries.UnschedulablePods.Workload",
		"status.Reported.Provider",
		"status.RecentRemovals.Name",
		"status.RecentTerminations.Name",
		"status.RecentTerminations.Revision",
		"status.Reported.URL",
		"status.Reported.Context",
		"status.Reported.Commit",
		"status.Reported.State",
		"status.Reported.Description",
		"status.Notified.Subject",
		"status.Notified.Reason",
		"status.Notified.Revision",
	}
}

// TestEveryMessageOfAStatusIsRedacted: a new text of the status must be listed here as a name, be called Message or
// Failure, or have the tag redact:"hide".
func TestEveryMessageOfAStatusIsRedacted(t *testing.T) {
	s := &Step{Sync: &v1alpha1.NodeSync{}, Before: &v1alpha1.NodeSync{}, Memory: &Memory{}}
	texts, _ := fill(t, reflect.ValueOf(&s.Sync.Status).Elem(), "status", "it is "+secret, false)
	s.Memory.HideValues([]string{secret})
	s.Redact()
	got := map[string]string{}
	read(reflect.ValueOf(&s.Sync.Status).Elem(), "status", got)
	for _, path := range texts {
		hidden := !strings.Contains(got[path], secret)
		if isName := slices.Contains(statusNames(), path); hidden == isName {
			t.Errorf("%q, redacted: %t", path, hidden)
		}
	}
}

// TestRedactedErrorsKeepTheirClass shows this, and that they are truncated for a commit status after they are redacted.
func TestRedactedErrorsKeepTheirClass(t *testing.T) {
	s := &Step{Sync: &v1alpha1.NodeSync{}, Before: &v1alpha1.NodeSync{}, Memory: &Memory{}}
	s.Fault = &fault.Error{Class: fault.Terminal, Reason: "Refused", Err: errors.New(secret)}
	s.Sync.Status.Removals = []v1alpha1.Removal{{UID: types.UID(secret), Message: secret}}
	s.Memory.HideValues([]string{secret})
	s.Redact()
	if s.Fault.Class != fault.Terminal || s.Fault.Reason != "Refused" || s.Fault.Error() != "***" || s.Fault.Brief().What != "***" {
		t.Errorf("fault: %+v", s.Fault)
	}
	if r := s.Sync.Status.Removals[0]; r.UID != types.UID(secret) || r.Message != "***" {
		t.Errorf("removal: %+v", r)
	}
}

// mayBeLost are the fields that a minimal status omits, because the next reconcile finds their values again.
func mayBeLost() []string {
	return []string{
		"Conditions", // except those that report this
		"Drift",
		"Held.Message",
		"Images",
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

// kept are those that it has: a reconcile depends on them, and finds them nowhere else.
func kept() []string {
	return []string{
		"ReconcileRequestStatus",
		"ObservedGeneration",
		"LastAttemptedRevision",
		"LastAppliedRevision",
		"PartlyAppliedRevision",
		"LastAppliedInputs",
		"PartlyAppliedInputs",
		"Artifacts",
		"Withheld",
		"UsedReleases",
		"Held",
		"Approved",
		"UsedApprovals",
		"UsedGitApprovals",
		"LastVerified",
		"Promotion",
		"Karpenter",
		"Rollout",
		"PoolRollouts",
		"RevertedPools",
		"LaunchFailing",
		"IdentityConflict",
		"Removals",
		"RecentRemovals",
		"RecentTerminations",
		"OpenRemovals",
		"Reported",
		"Notified",
	}
}

// TestTheLeastOfAStatusHasItsRecords: a new field of the status must be listed here as one that may be lost, or be
// kept, while the API server refuses the whole status.
func TestTheLeastOfAStatusHasItsRecords(t *testing.T) {
	whole := v1alpha1.NodeSyncStatus{}
	occupy(t, reflect.ValueOf(&whole).Elem(), "status")
	s := &Step{Sync: &v1alpha1.NodeSync{}, Before: &v1alpha1.NodeSync{Status: *whole.DeepCopy()}, Memory: &Memory{}}
	s.Fault = fault.StatusNotWritten(errors.New("it is too large"))
	is := whole.DeepCopy()
	least := s.minimalStatus(*is, is.Removals)

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

// occupy sets each field of a value, at any depth, to a non-zero value.
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

// differing returns the fields in which two values differ, the outermost that only one of them has.
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

// TestRedactionChangesNothingThatIsShared shows this because callers may keep what they pass to a conclusion.
func TestRedactionChangesNothingThatIsShared(t *testing.T) {
	shared := &v1alpha1.InstanceDrift{Failure: "it is " + secret}
	pools := []v1alpha1.PoolRollout{{Pool: "web", Proposal: &v1alpha1.RevertProposal{Message: "it is " + secret}}}
	s := &Step{Sync: &v1alpha1.NodeSync{}, Before: &v1alpha1.NodeSync{}, Memory: &Memory{}, Found: Found{Instances: shared, PoolRollouts: pools}}
	s.Memory.HideValues([]string{secret})
	s.Redact()
	if got := s.Instances.Failure + s.PoolRollouts[0].Proposal.Message; strings.Contains(got, secret) {
		t.Errorf("reported: %q", got)
	}
	if shared.Failure != "it is "+secret || pools[0].Proposal.Message != "it is "+secret {
		t.Errorf("what was found has become %q and %q", shared.Failure, pools[0].Proposal.Message)
	}
}
