package removal

import (
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// TestOrphanNamesWhatEndsAllTheSame: NodeClaims that are terminating cannot be taken back, and
// the end of the NodeSync says how many there are.
func TestOrphanNamesWhatEndsAllTheSame(t *testing.T) {
	for name, c := range map[string]struct {
		terminating bool
		want        string
	}{
		"none": {want: "its objects and nodes are left as they are"},
		"one":  {terminating: true, want: "its objects and nodes are left as they are; Karpenter ends 1 NodeClaim that was terminating already"},
	} {
		t.Run(name, func(t *testing.T) {
			b := living(t)
			for range 10 {
				s := b.step()
				for i := range s.Live.NodeClaims {
					s.Live.NodeClaims[i].Deleting = c.terminating
				}
				result, err := s.Orphan(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if result.Ended == "" {
					continue
				}
				if result.Ended != c.want {
					t.Errorf("ended: %q, want %q", result.Ended, c.want)
				}
				return
			}
			t.Error("it does not end")
		})
	}
}

// TestAnEntryIsLeftToItself once that is approved, and the pass after ends its removal: the object has
// lost our label, the record of what was applied lacks it, and its nodes are counted.
func TestAnEntryIsLeftToItself(t *testing.T) {
	for name, c := range map[string]struct {
		candidate plan.Candidate
		left      bool
	}{
		"approved":         {plan.Candidate{Orphan: true, Recorded: true}, true},
		"held":             {plan.Candidate{Orphan: true, Recorded: true, Held: true}, false},
		"not recorded yet": {plan.Candidate{Orphan: true}, false},
		"of another kind":  {plan.Candidate{Recorded: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := living(t)
			s := b.looks()
			c.candidate.Ref, c.candidate.UID = general, "p1"
			s.Plan.Removals = []plan.Candidate{c.candidate}
			if driven := !s.notDriven(v1alpha1.Removal{UID: "p1"}); driven == c.left {
				t.Errorf("driven on: %v", driven)
			}
			if err := s.orphanEntries(t.Context()); err != nil {
				t.Fatal(err)
			}
			labels := b.livePool().GetLabels()
			_, owned := labels[v1alpha1.OwnerLabel]
			_, recorded := b.record().Record.Objects[general]
			if owned == c.left || recorded == c.left || c.left != (labels[v1alpha1.OrphanedLabel] == namespace+".prod") {
				t.Errorf("labels %v, recorded %v", labels, recorded)
			}
			if labels["team"] != "a" {
				t.Errorf("labels of others: %v", labels)
			}
			s = b.looks()
			r := v1alpha1.Removal{Kind: general.Kind, Name: general.Name, UID: "p1"}
			if words := s.leftUnmanaged(r); (words != "") != c.left || c.left && !strings.Contains(words, "left to itself with 1 node") {
				t.Errorf("said: %q", words)
			}
			if pools := s.Orphaned(); (len(pools) == 1) != c.left {
				t.Errorf("counted: %v", pools)
			}
		})
	}
}
