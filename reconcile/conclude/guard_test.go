package conclude

import (
	"testing"

	"github.com/fluxcd/pkg/runtime/conditions"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/deletion"
)

// TestDeletionUnguarded: the condition lasts as long as what it says, an event says when that ends, and
// a pass that has not looked changes nothing.
func TestDeletionUnguarded(t *testing.T) {
	missing := deletion.Answer{Looked: true, Known: true, Missing: []string{"the binding is missing"}}
	altered := deletion.Answer{Looked: true, Known: true, Altered: []string{"the policy was altered: spec.validations"}}
	sync := &v1alpha1.NodeSync{}
	for i, c := range []struct {
		guard  deletion.Answer
		status string
		event  string
	}{
		{guard: deletion.Answer{Looked: true, Known: true}},
		{guard: missing, status: "True DeletionGuardMissing", event: "DeletionGuardMissing"},
		{guard: missing, status: "True DeletionGuardMissing"},
		{guard: deletion.Answer{}, status: "True DeletionGuardMissing"},
		{guard: altered, status: "True DeletionGuardAltered", event: "DeletionGuardAltered"},
		{guard: deletion.Answer{Looked: true, Known: true}, event: "DeletionGuardRestored"},
		{guard: deletion.Answer{Looked: true, Unread: "forbidden"}, status: "Unknown DeletionGuardUnknown", event: "DeletionGuardUnknown"},
		{guard: deletion.Answer{Looked: true, Known: true}},
	} {
		s := &Step{Found: Found{Guard: c.guard}, Sync: sync, Before: sync.DeepCopy()}
		s.setDeletionUnguarded()
		status, event := "", ""
		if found := conditions.Get(sync, v1alpha1.DeletionUnguardedCondition); found != nil {
			status = string(found.Status) + " " + found.Reason
		}
		for _, n := range s.Notes {
			event += n.Reason
		}
		if status != c.status || event != c.event {
			t.Errorf("look %d: condition %q, event %q; want %q and %q", i+1, status, event, c.status, c.event)
		}
	}
}

// TestKarpenterDenied: the condition lasts as long as the policy denies Karpenter's controller, and a pass that has not
// looked changes nothing.
func TestKarpenterDenied(t *testing.T) {
	denied := deletion.Denial{Looked: true, Accounts: []string{"system:serviceaccount:karpenter:blue"}}
	sync := &v1alpha1.NodeSync{}
	for i, c := range []struct {
		denial        deletion.Denial
		status, event string
	}{
		{denial: deletion.Denial{Looked: true}},
		{denial: denied, status: "True FinalizerDenied", event: "FinalizerDenied"},
		{denial: denied, status: "True FinalizerDenied"},
		{denial: deletion.Denial{}, status: "True FinalizerDenied"},
		{denial: deletion.Denial{Looked: true, Unknown: "forbidden"}, status: "Unknown FinalizerUnknown", event: "FinalizerUnknown"},
		{denial: deletion.Denial{Looked: true}},
	} {
		s := &Step{Found: Found{Denial: c.denial}, Sync: sync, Before: sync.DeepCopy()}
		s.setKarpenterDenied()
		status, event := "", ""
		if found := conditions.Get(sync, v1alpha1.KarpenterDeniedCondition); found != nil {
			status = string(found.Status) + " " + found.Reason
		}
		for _, n := range s.Notes {
			event += n.Reason
		}
		if status != c.status || event != c.event {
			t.Errorf("look %d: condition %q, event %q; want %q and %q", i+1, status, event, c.status, c.event)
		}
	}
}

// TestChartsUnguarded: the condition lasts as long as a policy below the daemon is missing or altered.
func TestChartsUnguarded(t *testing.T) {
	sync := &v1alpha1.NodeSync{}
	for i, c := range []struct {
		guard  deletion.Answer
		status string
	}{
		{guard: deletion.Answer{Looked: true, Known: true, Missing: []string{"another policy is missing"}}},
		{guard: deletion.Answer{Looked: true, Known: true, ChartsMissing: []string{"a policy is missing"}}, status: "True ChartPoliciesMissing"},
		{guard: deletion.Answer{}, status: "True ChartPoliciesMissing"},
		{guard: deletion.Answer{Looked: true, Known: true, ChartsAltered: []string{"a policy was altered"}}, status: "True ChartPoliciesAltered"},
		{guard: deletion.Answer{Looked: true, Unread: "forbidden"}, status: "Unknown ChartPoliciesUnknown"},
		{guard: deletion.Answer{Looked: true, Known: true}},
	} {
		s := &Step{Found: Found{Guard: c.guard}, Sync: sync, Before: sync.DeepCopy()}
		s.setChartsUnguarded()
		status := ""
		if found := conditions.Get(sync, v1alpha1.ChartsUnguardedCondition); found != nil {
			status = string(found.Status) + " " + found.Reason
		}
		if status != c.status {
			t.Errorf("look %d: condition %q, want %q", i+1, status, c.status)
		}
	}
}
