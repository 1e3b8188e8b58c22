package plan_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestRoomForTheBrake: Karpenter takes 50 budgets. Those for drift only make room; without any the
// brake is refused, with what to do.
func TestRoomForTheBrake(t *testing.T) {
	for name, c := range map[string]struct {
		budgets int
		drifted int
		want    int
	}{
		"none": {0, 0, 1}, "49": {49, 3, 50}, "50": {50, 0, 0}, "50, two of them for drift": {50, 2, 49},
	} {
		t.Run(name, func(t *testing.T) {
			var all []any
			for i := range c.budgets {
				budget := map[string]any{"nodes": "10%"}
				if i < c.drifted {
					budget["reasons"] = []any{"Drifted"}
				}
				all = append(all, budget)
			}
			object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"disruption": map[string]any{"budgets": all}}}}
			budgets, err := plan.Braked(render.Object{Ref: render.Ref{Kind: render.NodePool, Name: "general"}, Defaulted: object})
			switch {
			case len(budgets) != c.want:
				t.Errorf("%d budgets, error %v", len(budgets), err)
			case c.want == 0 && !strings.Contains(err.Error(), "NodePool/general has 50 disruption budgets"):
				t.Error(err)
			case c.want > 0 && len(plan.WithoutBrake(&unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"disruption": map[string]any{"budgets": budgets}}}})) != c.want-1:
				t.Error("without the brake there are others")
			}
		})
	}
}
