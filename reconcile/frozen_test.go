package reconcile

import (
	"strings"
	"testing"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/review"
	"github.com/plumbline-dev/plumbline/render"
)

// TestAFreezeKeepsTheController shows that a change of the charts waits, while the rest of the commit is applied under
// what is in force, as a preview reports. In an emergency it proceeds.
func TestAFreezeKeepsTheController(t *testing.T) {
	m := newMirror(t)
	m.changeController(func(d *appsv1.Deployment) { d.Status.ReadyReplicas, d.Status.Replicas = 1, 1 })
	m.change(func(n *v1alpha1.NodeSync) {
		n.Spec.Guard.Freeze = []v1alpha1.GuardFreeze{{From: "2000-01-01", To: "2999-12-31", Reason: "audit"}}
	})
	installed := m.install.Asked[charts.ControllerChart]
	p := m.passes(m.after)
	if p.Fault != nil || m.install.Asked[charts.ControllerChart] != installed || m.read().Status.Karpenter.Target != nil {
		t.Fatalf("fault %v, charts installed %d times more, target %+v", p.Fault, m.install.Asked[charts.ControllerChart]-installed, m.read().Status.Karpenter.Target)
	}
	if !m.is("on-demand") {
		t.Error("the rest of the commit was not applied")
	}
	const says = "waiting: no node is removed or replaced within a year (spec.guard.freeze: audit)"
	if ready := conditions.Get(m.read(), meta.ReadyCondition); ready.Status != metav1.ConditionUnknown || ready.Reason != v1alpha1.ReasonWaiting || !strings.Contains(ready.Message, says) {
		t.Errorf("Ready is %+v", ready)
	}
	seen, err := m.previewOf()
	if err != nil || seen.ChartsRefused != nil || !strings.Contains(seen.ChartsChange, says) {
		t.Errorf("the preview says %+v, %v", seen, err)
	}
	m.change(func(n *v1alpha1.NodeSync) {
		n.Annotations = map[string]string{v1alpha1.EmergencyAnnotation: m.clock.now().Add(3600e9).UTC().Format("2006-01-02T15:04:05Z")}
	})
	if m.passes(m.after); m.install.Asked[charts.ControllerChart] == installed {
		t.Errorf("in an emergency the charts are not changed: %+v", conditions.Get(m.read(), meta.ReadyCondition))
	}
}

// change changes the NodeSync.
func (m *mirror) change(change func(*v1alpha1.NodeSync)) {
	m.t.Helper()
	sync := m.read()
	change(sync)
	if err := m.client.Update(m.t.Context(), sync); err != nil {
		m.t.Fatal(err)
	}
}

// previewOf returns what plumbline plan reports for the new commit.
func (m *mirror) previewOf() (*review.Preview, error) {
	step := m.world.previewStep(m.bed)
	step.Snapshot = &render.Snapshot{Revision: "main@sha1:9", Commit: "9", FS: m.after}
	return step.Make(m.t.Context())
}
