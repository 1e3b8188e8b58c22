package reconcile

import (
	"maps"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// newFreezing returns a mirror whose controller runs, and whose guard allows what a test replaces.
func newFreezing(t *testing.T) *mirror {
	t.Helper()
	m := newMirror(t)
	m.changeController(func(d *appsv1.Deployment) { d.Status.ReadyReplicas, d.Status.Replicas = 1, 1 })
	m.change(func(n *v1alpha1.NodeSync) {
		all, none := intstr.FromString("100%"), int32(0)
		n.Spec.Guard.MaxDisruptedNodes, n.Spec.Guard.MaxRemovedPools = &all, &none
	})
	return m
}

// with returns the commit of a mirror with other files; one without content is left out.
func (m *mirror) with(files map[string]string) fstest.MapFS {
	commit := maps.Clone(m.before)
	for name, text := range files {
		commit["prod/nodes/"+name] = &fstest.MapFile{Data: []byte(text)}
		if text == "" {
			delete(commit, "prod/nodes/"+name)
		}
	}
	return commit
}

// freeze starts or ends a freeze.
func (m *mirror) freeze(on bool) {
	m.t.Helper()
	m.change(func(n *v1alpha1.NodeSync) {
		n.Spec.Guard.Freeze = nil
		if on {
			n.Spec.Guard.Freeze = []v1alpha1.GuardFreeze{{From: "2000-01-01", To: "2999-12-31", Reason: "audit"}}
		}
	})
}

// TestTheBrakeOfAPoolThatIsRemoved shows that a pool whose removal is held is braked like any other, that it keeps its
// brake when it is removed from Git and restored, and that the brake ends with its reason.
func TestTheBrakeOfAPoolThatIsRemoved(t *testing.T) {
	m := newFreezing(t)
	other := poolText("b", "default", "{key: karpenter.sh/capacity-type, operator: In, values: [spot]}")
	both, one := m.with(map[string]string{"b.yaml": other}), m.with(map[string]string{"b.yaml": other, "pool.yaml": ""})
	m.passes(both)
	if err := m.client.Create(t.Context(), driftedClaim("a-1", "a", m.clock.now())); err != nil {
		t.Fatal(err)
	}
	m.passes(both)
	m.passes(one)
	if removals := m.read().Status.Removals; len(removals) != 1 || removals[0].Phase != v1alpha1.RemovalHeld || strings.Contains(m.budgets(), "Drifted") {
		t.Fatalf("removals %+v, budgets %s", removals, m.budgets())
	}
	m.freeze(true)
	if m.passes(one); !strings.Contains(m.budgets(), "Drifted") {
		t.Fatalf("in the freeze: budgets %s, pools %+v", m.budgets(), m.read().Status.PoolRollouts)
	}
	since := m.read().Status.PoolRollouts[0].BrakedAt
	for _, commit := range []fstest.MapFS{both, one, both, one} {
		m.source.files = commit
		m.clock.forward(m.read().Spec.Interval.Duration)
		for i := range 4 {
			m.clock.forward(time.Second)
			p := m.pass()
			p.take(t.Context(), nil)
			if !strings.Contains(m.budgets(), "Drifted") {
				t.Errorf("reconcile %d after the pool was removed or restored: budgets %s", i, m.budgets())
			}
			if _, err := p.conclude(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := m.read().Status.PoolRollouts; len(got) != 1 || !got[0].BrakedAt.Equal(since) {
				t.Errorf("reconcile %d after the pool was removed or restored: %+v, braked at %s before", i, got, since)
			}
		}
	}
	m.freeze(false)
	if m.passes(one); strings.Contains(m.budgets(), "Drifted") {
		t.Errorf("after the freeze, while it is removed: budgets %s", m.budgets())
	}
	m.freeze(true)
	m.passes(one)
	m.freeze(false)
	if m.passes(both); strings.Contains(m.budgets(), "Drifted") {
		t.Errorf("after the freeze, in Git again: budgets %s", m.budgets())
	}
}
