package render

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestRoomForTheBudgetThatStopsARollout: Karpenter allows 50, and those for drift only make room.
func TestRoomForTheBudgetThatStopsARollout(t *testing.T) {
	for name, c := range map[string]struct {
		budgets, drifted int
		refused          bool
	}{
		"none": {}, "49": {budgets: 49}, "50": {budgets: 50, refused: true}, "50, one of them for drift": {budgets: 50, drifted: 1},
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
			object := Object{Ref: Ref{Kind: NodePool, Name: "general"}, Desired: &unstructured.Unstructured{Object: map[string]any{
				"spec": map[string]any{"disruption": map[string]any{"budgets": all}},
			}}}
			var says []string
			for _, p := range checkDefinition(object) {
				if text := p.message; strings.Contains(text, "disruption budgets") {
					says = append(says, text)
				}
			}
			if (len(says) > 0) != c.refused || c.refused && !strings.Contains(says[0], "NodePool/general: it has 50 disruption budgets, and may have 49") {
				t.Errorf("it says %q", says)
			}
		})
	}
}
