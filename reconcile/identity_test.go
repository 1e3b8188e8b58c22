package reconcile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"

	"github.com/plumbline-dev/plumbline/reconcile/account"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// TestAnIdentityConflictHoldsNodes: two terminations by another client make the NodeSync not Ready and hold voluntary
// disruption in its pools. A person who resolves that restores the budgets of Git.
func TestAnIdentityConflictHoldsNodes(t *testing.T) {
	m := newMirror(t)
	began := m.clock.now().Add(5 * time.Minute)
	m.Cluster.Terminations = func() []account.Termination {
		return []account.Termination{{Instance: "i-1", Pool: "a", At: began}, {Instance: "i-2", Pool: "a", At: began.Add(time.Minute)}}
	}
	budgets := func() string { return fmt.Sprint(m.livePool()) }
	m.passes(m.before)
	sync := m.read()
	ready := conditions.Get(sync, meta.ReadyCondition)
	if !sync.Status.IdentityConflict.Open() || !conditions.IsTrue(sync, v1alpha1.IdentityConflictCondition) || ready.Reason != v1alpha1.ReasonIdentityConflict {
		t.Fatalf("conflict %+v, Ready %+v", sync.Status.IdentityConflict, ready)
	}
	if !strings.Contains(budgets(), "23h59m") {
		t.Errorf("disruption is not held: %s", budgets())
	}
	m.change(func(n *v1alpha1.NodeSync) {
		n.Annotations = map[string]string{v1alpha1.IdentityResolvedAnnotation: m.clock.now().UTC().Format(time.RFC3339)}
	})
	m.passes(m.before)
	if sync = m.read(); sync.Status.IdentityConflict != nil || conditions.GetReason(sync, meta.ReadyCondition) == v1alpha1.ReasonIdentityConflict || strings.Contains(budgets(), "23h59m") {
		t.Errorf("resolved: %+v, Ready %+v, %s", sync.Status.IdentityConflict, conditions.Get(sync, meta.ReadyCondition), budgets())
	}
}

// TestAnIdentityConflictIsOnlyReported with Report: nothing of the pools is changed.
func TestAnIdentityConflictIsOnlyReported(t *testing.T) {
	m := newMirror(t)
	m.change(func(n *v1alpha1.NodeSync) { n.Spec.Guard.OnIdentityConflict = v1alpha1.IdentityConflictReport })
	began := m.clock.now().Add(5 * time.Minute)
	m.Cluster.Terminations = func() []account.Termination {
		return []account.Termination{{Instance: "i-1", Pool: "a", At: began}, {Instance: "i-2", Pool: "a", At: began}}
	}
	m.passes(m.after)
	if !m.read().Status.IdentityConflict.Open() || !m.is("on-demand") || strings.Contains(fmt.Sprint(m.livePool()), "23h59m") {
		t.Errorf("conflict %+v, pool %v", m.read().Status.IdentityConflict, m.livePool())
	}
}
