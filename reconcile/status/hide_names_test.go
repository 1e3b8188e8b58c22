package status

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
	"github.com/plumbline-dev/plumbline/render"
)

// TestNamesAreNotRedacted shows this because a Secret may contain the same word as the name of a pool or a reason, by
// which other findings are identified.
func TestNamesAreNotRedacted(t *testing.T) {
	s := &Step{Sync: &v1alpha1.NodeSync{}, Before: &v1alpha1.NodeSync{}, Memory: &Memory{}}
	s.LaunchFailures = []rollout.LaunchFailure{{Pool: secret, Why: secret}}
	s.Notes = []finding.Note{{Type: secret, Reason: secret, Message: secret}}
	s.Memory.HideValues([]string{secret})
	s.Redact()
	if diff := cmp.Diff([]rollout.LaunchFailure{{Pool: secret, Why: "***"}}, s.LaunchFailures); diff != "" {
		t.Errorf("pools without nodes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]finding.Note{{Type: secret, Reason: secret, Message: "***"}}, s.Notes); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestAGuessInANameIsNotConfirmed shows that people who may name definitions do not learn whether a Secret contains a
// name, or something that looks like a name.
func TestAGuessInANameIsNotConfirmed(t *testing.T) {
	before := &v1alpha1.NodeSync{Status: v1alpha1.NodeSyncStatus{Removals: []v1alpha1.Removal{{Kind: render.NodePool, Name: "old-4711"}}}}
	s := &Step{Sync: &v1alpha1.NodeSync{}, Before: before, Memory: &Memory{}}
	s.Set = &render.Set{}
	for _, name := range []string{"a-4710-4711-4712-b", "deadbeefcafe1234", "x-deadbeefcafe1234"} {
		s.Set.Objects = append(s.Set.Objects, render.Object{Ref: render.Ref{Kind: render.EC2NodeClass, Name: name}})
	}
	s.Memory.HideValues([]string{"4711", "deadbeefcafe1234"})
	for message, want := range map[string]string{
		"EC2NodeClass/a-4710-4711-4712-b is not Ready":                   "EC2NodeClass/a-4710-4711-4712-b is not Ready",
		"EC2NodeClass/deadbeefcafe1234, EC2NodeClass/x-deadbeefcafe1234": "EC2NodeClass/deadbeefcafe1234, EC2NodeClass/x-deadbeefcafe1234",
		"NodePool/old-4711 is gone":                                      "NodePool/old-4711 is gone",
		"the chart says NodePool/deadbeefcafe1234":                       "the chart says NodePool/***",
		"EC2NodeClass/deadbeefcafe1234: 4711 and deadbeefcafe1234":       "EC2NodeClass/deadbeefcafe1234: *** and ***",
		"deadbeefcafe1234/EC2NodeClass/deadbeefcafe1234":                 "***/EC2NodeClass/deadbeefcafe1234",
	} {
		s.Notes = []finding.Note{{Message: message}}
		s.Redact()
		if got := s.Notes[0].Message; got != want {
			t.Errorf("%q reads %q, want %q", message, got, want)
		}
	}
}
