package rollout_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestDisruptionIsHeld: while another controller uses the name, every pool gets a budget of 0 nodes for all reasons,
// whether nodes of it are being replaced or not; once, and again before it ends. The brake of a rollout does not
// overwrite it.
func TestDisruptionIsHeld(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*world)
		want   int
	}{
		"no conflict":          {func(w *world) { w.sync.Status.IdentityConflict = nil }, 0},
		"no rollout":           {func(w *world) { w.rollout = nil }, 1},
		"a rollout":            {func(*world) {}, 1},
		"a rollout that fails": {func(w *world) { w.failThree() }, 1},
		"only reported":        {func(w *world) { w.sync.Spec.Guard.OnIdentityConflict = v1alpha1.IdentityConflictReport }, 0},
		"only the response stays": {func(w *world) {
			w.sync.Status.IdentityConflict = &v1alpha1.IdentityConflict{Response: &v1alpha1.IdentityResponse{}}
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.sync.Status.IdentityConflict = &v1alpha1.IdentityConflict{Since: at(4), LastSign: at(4)}
			w.frozen = plan.Frozen{Message: "another controller uses this cluster's name"}
			test.change(w)
			if test.want == 0 {
				w.rollout = nil
			}
			w.pass(true)
			if len(w.applied) != test.want {
				t.Fatalf("applied %q", w.applied)
			}
			if test.want == 0 {
				return
			}
			for _, want := range []string{"plumbline-brake force=true", "- nodes: 10%", "duration: 23h59m"} {
				if !strings.Contains(w.applied[0], want) || strings.Contains(w.applied[0], "reasons") {
					t.Errorf("applied %s", w.applied[0])
				}
			}
			w.live[render.Ref{Kind: render.NodePool, Name: "general"}] = heldPool(t, w)
			w.applied, w.now = nil, w.now.Add(time.Hour)
			if w.pass(true); len(w.applied) > 0 {
				t.Errorf("written again: %q", w.applied)
			}
			w.now = w.now.Add(12 * time.Hour)
			if w.pass(true); len(w.applied) != 1 {
				t.Errorf("not renewed: %q", w.applied)
			}
		})
	}
}

// heldPool returns the pool with the budgets that were applied.
func heldPool(t *testing.T, w *world) *unstructured.Unstructured {
	t.Helper()
	pool := object(t, poolYAML)
	held := plan.Held(w.set.Objects[1], plan.DisruptionHold{From: w.now})
	spec := pool.Object["spec"].(map[string]any)
	spec["disruption"] = map[string]any{"budgets": held}
	pool.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: v1alpha1.BrakeFieldManager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "karpenter.sh/v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:disruption":{"f:budgets":{}}}}`),
	}})
	return pool
}
