package plan_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestRoomForTheBrake: Karpenter allows 50 budgets. Budgets only for drift make room; if there are none, the brake is
// refused with instructions.
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

// TestMadeByFollowsTheClass: the cached hash of a NodePool is valid only with the same class.
func TestMadeByFollowsTheClass(t *testing.T) {
	c := newCluster(t)
	c.have(t, owner, pool("a", "default"), class("default"))
	of := plan.NewObject(c.Object(poolRef("a")))
	ref := render.Ref{Kind: render.EC2NodeClass, Name: "default"}
	with := func(object *plan.Object) string { return plan.MadeBy(of, map[render.Ref]*plan.Object{ref: object}) }
	first := plan.NewObject(c.Object(ref))
	before := with(first)
	if before == "" || with(first) != before {
		t.Errorf("%q, then %q", before, with(first))
	}
	c.have(t, owner, pool("a", "default"), class("default", "userData: hello"))
	if after := with(plan.NewObject(c.Object(ref))); after == before {
		t.Errorf("%q with another class, too", after)
	}
	if without := plan.MadeBy(of, nil); without == before || without == "" {
		t.Errorf("%q without a class", without)
	}
	if again := with(first); again != before {
		t.Errorf("%q with the first class again, want %q", again, before)
	}
}
