package reconcile

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

const onDemandOnly = "{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}"

// newWaving returns a mirror with five nodes, which are replaced in waves, as by default.
func newWaving(t *testing.T) *mirror {
	t.Helper()
	m := newFreezing(t)
	m.change(func(n *v1alpha1.NodeSync) { n.Spec.Rollout.Waves = nil })
	m.world.server.Edit(t, render.Ref{Kind: render.EC2NodeClass, Name: "default"}, "karpenter", func(o *unstructured.Unstructured) {
		o.Object["status"] = map[string]any{"conditions": []any{
			map[string]any{"type": "AMIsReady", "status": "True", "observedGeneration": o.GetGeneration()},
		}}
	})
	m.runs("", "spot", "spot", "spot", "spot", "spot")
	m.passes(m.before)
	return m
}

// wave returns the recorded wave of pool a; nil if there is none.
func (m *mirror) wave() *v1alpha1.RolloutWave {
	for _, e := range m.read().Status.PoolRollouts {
		if e.Pool == "a" {
			return e.Wave
		}
	}
	return nil
}

// TestACommitIsWrittenOnceNoNodeCanBeReplaced shows that from a commit on, no reconcile leaves the budgets of Git without a
// limit, and that the lease of the first wave follows its record, however often plumbline is killed.
func TestACommitIsWrittenOnceNoNodeCanBeReplaced(t *testing.T) {
	m := newWaving(t)
	change := m.with(map[string]string{"pool.yaml": poolText("a", "default", onDemandOnly)})
	if m.killed(change); m.is("on-demand") || strings.Contains(m.budgets(), "Drifted") {
		t.Fatalf("a change that is not recorded was written: %s", m.budgets())
	}
	m.source.files = change
	for i := range 8 {
		recorded := m.wave()
		m.clock.forward(time.Second)
		p := m.pass()
		p.take(t.Context(), nil)
		if written := m.is("on-demand"); written && !strings.Contains(m.budgets(), "Drifted") {
			t.Fatalf("reconcile %d: the change is written, and the budgets are %s", i, m.budgets())
		}
		if leased := strings.Contains(m.budgets(), "schedule"); leased && (recorded == nil || recorded.State != v1alpha1.WaveOpen) {
			t.Fatalf("reconcile %d: the wave is leased before it is recorded: %+v", i, recorded)
		}
		if i%2 == 0 {
			continue // killed
		}
		if _, err := p.conclude(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	m.passes(change)
	if w := m.wave(); !m.is("on-demand") || w == nil || w.Number != 1 || w.Of != 3 || w.State != v1alpha1.WaveOpen || !strings.Contains(m.budgets(), "schedule") {
		t.Errorf("the wave is %+v, the budgets are %s", w, m.budgets())
	}
}

// TestARevertIsNotDelayedByWaves shows that a revert during a wave is written at once, and that Git's budgets apply.
func TestARevertIsNotDelayedByWaves(t *testing.T) {
	m := newWaving(t)
	m.passes(m.with(map[string]string{"pool.yaml": poolText("a", "default", onDemandOnly)}))
	m.runs("spot", "spot", "spot", "spot", "spot", "on-demand")
	m.passes(m.with(map[string]string{"pool.yaml": poolText("a", "default", onDemandOnly)}))
	if w := m.wave(); w == nil || w.Begun != 1 {
		t.Fatalf("the wave is %+v", w)
	}
	m.passes(m.before)
	if m.is("on-demand") || strings.Contains(m.budgets(), "Drifted") || m.wave() != nil {
		t.Errorf("the revert leaves the wave %+v and the budgets %s", m.wave(), m.budgets())
	}
}

// TestWithoutWaves shows that a commit is written at once if waves are off.
func TestWithoutWaves(t *testing.T) {
	m := newWaving(t)
	m.change(func(n *v1alpha1.NodeSync) { n.Spec.Rollout.Waves = &v1alpha1.RolloutWaves{Disabled: true} })
	m.passes(m.with(map[string]string{"pool.yaml": poolText("a", "default", onDemandOnly)}))
	if !m.is("on-demand") || strings.Contains(m.budgets(), "Drifted") || m.wave() != nil {
		t.Errorf("the wave is %+v, the budgets are %s", m.wave(), m.budgets())
	}
}
