package reconcile

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

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

// TestACommitEndsNoProtection: a NodePool that a commit removes or renames exists until the conflict is over, and its
// instances stay protected.
func TestACommitEndsNoProtection(t *testing.T) {
	m := newMirror(t)
	m.change(func(n *v1alpha1.NodeSync) { n.Spec.Guard.OnIdentityConflict = v1alpha1.IdentityConflictProtect })
	claim := &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "a-1", UID: "a-1", Labels: map[string]string{karpv1.NodePoolLabelKey: "a", karpv1.CapacityTypeLabelKey: karpv1.CapacityTypeOnDemand}},
		Spec:       karpv1.NodeClaimSpec{NodeClassRef: &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}},
		Status:     karpv1.NodeClaimStatus{ProviderID: "aws:///eu-west-1a/i-0123456789abcdef0", NodeName: "n1"},
	}
	if err := m.client.Create(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	began := m.clock.now().Add(5 * time.Minute)
	m.Cluster.Terminations = func() []account.Termination {
		return []account.Termination{{Instance: "i-1", Pool: "a", At: began}, {Instance: "i-2", Pool: "a", At: began.Add(time.Minute)}}
	}
	m.passes(m.before)
	if protected := m.read().Status.IdentityConflict.GetResponse().Protected; len(protected) != 1 {
		t.Fatalf("protected: %v", protected)
	}
	m.passes(fstest.MapFS{"prod/plumbline.yaml": m.before["prod/plumbline.yaml"], "prod/nodes/class.yaml": m.before["prod/nodes/class.yaml"]})
	c := m.read().Status.IdentityConflict
	if m.livePool() == nil || !c.Open() || len(c.GetResponse().Protected) != 1 {
		t.Errorf("after the removal of NodePool a: %+v", c)
	}
}
