package reconcile

import (
	"maps"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/awslabs/operatorpkg/status"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

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

// runs sets the nodes of pool a: each with its capacity type, of which one drifts.
func (m *mirror) runs(drifted string, capacities ...string) {
	m.t.Helper()
	for i, capacity := range capacities {
		claim := claimOf("a", m.livePool().GetUID(), i)
		_ = m.client.Delete(m.t.Context(), claim.DeepCopy())
		claim.Labels["karpenter.sh/capacity-type"], claim.Status.NodeName, claim.Status.ProviderID = capacity, "ip-"+claim.Name, "aws:///a/i-"+claim.Name
		if capacity == drifted {
			claim.Status.Conditions = []status.Condition{{
				Type: karpv1.ConditionTypeDrifted, Status: metav1.ConditionTrue, Reason: "RequirementsDrifted", LastTransitionTime: metav1.NewTime(m.clock.now()),
			}}
		}
		if err := m.client.Create(m.t.Context(), claim); err != nil {
			m.t.Fatal(err)
		}
	}
}

// killed runs reconciles of a commit that are killed before they save the status.
func (m *mirror) killed(files fstest.MapFS) {
	m.t.Helper()
	m.source.files, m.source.orders = files, nil
	m.clock.forward(m.read().Spec.Interval.Duration)
	for range 6 {
		m.clock.forward(time.Second)
		m.pass().take(m.t.Context(), nil)
	}
}

// TestNoCommitsPassAFreeze shows that a change that a freeze has stopped, and that was reverted during it, waits for the
// end of the freeze, whatever else happens between.
func TestNoCommitsPassAFreeze(t *testing.T) {
	const spot = "{key: karpenter.sh/capacity-type, operator: In, values: [spot]}"
	const onDemand = "{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}"
	for name, between := range map[string]func(m *mirror, revert fstest.MapFS){
		"nothing else": func(*mirror, fstest.MapFS) {},
		"a change that outdates no node": func(m *mirror, _ fstest.MapFS) {
			m.passes(m.with(map[string]string{"pool.yaml": poolText("a", "default", spot+", {key: kubernetes.io/arch, operator: Exists}")}))
		},
		"the removal of the pool, which is held": func(m *mirror, _ fstest.MapFS) {
			m.passes(m.with(map[string]string{"pool.yaml": "", "b.yaml": poolText("b", "default", spot)}))
		},
		"the end of the rollout": func(m *mirror, revert fstest.MapFS) {
			m.runs("", "spot", "spot", "spot", "spot")
			m.passes(revert)
			m.runs("on-demand", "spot", "spot", "on-demand", "on-demand")
		},
		"a restart": func(m *mirror, revert fstest.MapFS) {
			m.forget(m.pass().name())
			m.passes(revert)
		},
	} {
		for _, killed := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				m := newFreezing(t)
				m.runs("", "spot", "spot")
				m.passes(m.before)
				change, revert := m.with(map[string]string{"pool.yaml": poolText("a", "default", onDemand)}), m.before
				m.passes(change)
				m.runs("spot", "spot", "spot", "on-demand", "on-demand")
				m.freeze(true)
				if m.passes(change); !strings.Contains(m.budgets(), "Drifted") || !m.is("on-demand") {
					t.Fatalf("the rollout is not stopped: %s", m.budgets())
				}
				if killed {
					m.killed(revert)
				} else {
					m.passes(revert)
				}
				if !m.is("spot") {
					t.Fatal("the revert waits")
				}
				m.runs("on-demand", "spot", "spot", "on-demand", "on-demand")
				if m.passes(revert); strings.Contains(m.budgets(), "Drifted") {
					t.Errorf("the rollout of the revert waits: %s", m.budgets())
				}
				between(m, revert)
				if m.passes(change); m.is("on-demand") {
					t.Error("the stopped change has passed the freeze")
				}
				m.freeze(false)
				if m.passes(change); !m.is("on-demand") || len(m.read().Status.RevertedPools) > 0 {
					t.Errorf("after the freeze it waits; reverted: %+v", m.read().Status.RevertedPools)
				}
			})
		}
	}
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
