package removal

import (
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestOrphanNamesWhatEndsAllTheSame checks that the message about the deleted NodeSync counts the NodeClaims that are
// already terminating, which cannot be reverted.
func TestOrphanNamesWhatEndsAllTheSame(t *testing.T) {
	for name, c := range map[string]struct {
		terminating bool
		want        string
	}{
		"none": {want: "its objects are no longer managed; their nodes keep running"},
		"one":  {terminating: true, want: "its objects are no longer managed; their nodes keep running; Karpenter still terminates 1 NodeClaim that was already terminating"},
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

// TestAnEntryIsLeftToItself checks that an entry is orphaned once that is approved, and that the next reconcile
// completes its removal: the object no longer has plumbline's label, the record of applied objects does not contain it,
// and its nodes are counted.
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
			if words := s.leftUnmanaged(r); (words != "") != c.left || c.left && !strings.Contains(words, "no longer managed by any NodeSync, as approved; 1 node") {
				t.Errorf("said: %q", words)
			}
			if pools := s.Orphaned(); (len(pools) == 1) != c.left {
				t.Errorf("counted: %v", pools)
			}
		})
	}
}

// TestWhatWasRelabelledIsNotForgotten checks that a pool whose label was changed by hand and that is removed from Git
// is neither removed nor forgotten.
func TestWhatWasRelabelledIsNotForgotten(t *testing.T) {
	for name, label := range map[string]string{"taken off": "", "of a NodeSync that is not there": "plumbline-system.nobody"} {
		t.Run(name, func(t *testing.T) {
			b := living(t)
			pool := b.livePool()
			labels := pool.GetLabels()
			if labels[v1alpha1.OwnerLabel] = label; label == "" {
				delete(labels, v1alpha1.OwnerLabel)
			}
			pool.SetLabels(labels)
			if err := b.client.Update(t.Context(), pool); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				s := b.looks(render.Ref{Kind: render.NodePool, Name: "other"})
				if waits, err := s.awaitRelabelled(t.Context()); err != nil || !waits {
					t.Fatalf("waits: %t, error %v", waits, err)
				}
				if len(s.Waits) != 1 || s.Waits[0].On != "NodePool/general" || !strings.Contains(s.Waits[0].Message, "ConfigMap plumbline.applied-") {
					t.Errorf("waits %+v", s.Waits)
				}
				if err := s.saveApplied(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
			}
			s := b.looks(general)
			if waits, err := s.awaitRelabelled(t.Context()); err != nil || waits {
				t.Errorf("Git has it, and it waits: %t, error %v", waits, err)
			}
		})
	}
}

// TestADrainNamesWhatWasRelabelled checks that an EC2NodeClass that waits for such a pool does not hide the pool, and
// also says what to do.
func TestADrainNamesWhatWasRelabelled(t *testing.T) {
	b := living(t)
	pool := b.livePool()
	labels := pool.GetLabels()
	delete(labels, v1alpha1.OwnerLabel)
	pool.SetLabels(labels)
	if err := b.client.Update(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	s := b.looks()
	s.Set = nil
	if _, err := s.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	const want = "it was removed from Git, but another client changed its label plumbline.dev/nodesync, so plumbline does not remove it: set the label back to plumbline-system.prod, or"
	if len(s.Waits) != 1 || s.Waits[0].On != "NodePool/general" || !strings.HasPrefix(s.Waits[0].Message, want) {
		t.Errorf("waits %+v", s.Waits)
	}
	why, err := s.unremoved(t.Context())
	if err != nil || !strings.HasPrefix(why["NodePool/general"], "another client changed its label plumbline.dev/nodesync") {
		t.Errorf("unremoved %v, error %v", why, err)
	}
}
