package conclude

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
)

const secret = "hunter2hunter2"

// TestWhatWasHiddenStaysHidden for the change after: the controller of before may
// still be told of.
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

// fill puts a text into every string and every error of a value, however deep, and
// returns by which fields each is reached; those of names apart.
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
				continue // of a time
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

// read is what fill has put in, as it is by now.
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

// TestEveryFindingIsRedacted: whatever field is added to Found is redacted, too, unless
// it is tagged to be a name.
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

// statusNames are the texts of a status that identify something, or that no message
// goes into: removals and upgrades go by them. Every other text has to be redacted.
func statusNames() []string {
	return []string{
		"status.ReconcileRequestStatus.LastHandledReconcileAt",
		"status.Conditions.Type",
		"status.Conditions.Reason",
		"status.LastAttemptedRevision",
		"status.LastAppliedRevision",
		"status.LastAppliedInputs",
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
		"status.Removals.Kind",
		"status.Removals.Name",
		"status.Removals.Revision",
		"status.Removals.Reason",
		"status.Removals.Definition",
		"status.Removals.Approved",
		"status.Held.Digest",
		"status.Held.Outcome",
		"status.Held.Summary", // of numbers
		"status.Held.Entries.Kind",
		"status.Held.Entries.Name",
		"status.Held.Entries.Definition",
		"status.Held.Entries.UnschedulablePods.Workload",
		"status.Held.Approvers", // who it was is known by nothing else
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

// TestEveryMessageOfAStatusIsRedacted: whoever adds a text to the status says here that
// it is a name, calls it Message or Failure, or gives it the tag redact:"hide".
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

// TestRedactedErrorsKeepTheirClass, and are cut for a commit status after they are
// redacted.
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
