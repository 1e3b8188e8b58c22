package reconcile

import (
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/conclude"
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
				p := b.looks(render.Ref{Kind: render.NodePool, Name: "other"})
				if waits, err := p.awaitRelabelled(t.Context()); err != nil || !waits {
					t.Fatalf("waits: %t, error %v", waits, err)
				}
				if v := p.verdict(); v.Class != conclude.Working || !strings.Contains(v.Message, "NodePool/general") || !strings.Contains(v.Message, "ConfigMap plumbline.applied-") {
					t.Errorf("verdict %+v", v)
				}
				if err := p.saveApplied(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
			}
			p := b.looks(general)
			if waits, err := p.awaitRelabelled(t.Context()); err != nil || waits {
				t.Errorf("Git has it, and it waits: %t, error %v", waits, err)
			}
		})
	}
}
