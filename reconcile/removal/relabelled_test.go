package removal

import (
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// TestWhatWasRelabelledIsNotForgotten: a pool whose label was changed by hand and that
// leaves Git is neither removed nor done with.
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

// TestADrainNamesWhatWasRelabelled: an EC2NodeClass that waits for such a pool does not hide
// it, and says what to do as well.
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
	const want = "it has left Git, and its label plumbline.dev/nodesync was changed by hand, so that it is not removed: set the label to plumbline-system.prod again"
	if len(s.Waits) != 1 || s.Waits[0].On != "NodePool/general" || !strings.HasPrefix(s.Waits[0].Message, want) {
		t.Errorf("waits %+v", s.Waits)
	}
	why, err := s.unremoved(t.Context())
	if err != nil || !strings.HasPrefix(why["NodePool/general"], "its label plumbline.dev/nodesync was changed by hand") {
		t.Errorf("unremoved %v, error %v", why, err)
	}
}
