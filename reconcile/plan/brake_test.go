package plan_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
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
		"none": {0, 0, 1}, "49": {49, 3, 50}, "50": {50, 0, 0}, "50, two of them for drift": {50, 2, 0},
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
			case c.want > 0 && len(plan.WithoutBrake(braked(budgets))) != c.want-1:
				t.Error("without the brake there are others")
			}
		})
	}
}

// braked returns a NodePool with disruption budgets that the brake's manager has applied.
func braked(budgets []any) *unstructured.Unstructured {
	pool := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"uid": "u", "resourceVersion": "7"}, "spec": map[string]any{"disruption": map[string]any{"budgets": budgets}},
	}}
	pool.SetManagedFields([]metav1.ManagedFieldsEntry{
		{Manager: "karpenter", Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "status"},
		{
			Manager: v1alpha1.BrakeFieldManager, Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:disruption":{"f:budgets":{}}}}`),
		},
	})
	return pool
}

// TestABudgetOfGitMayLookLikeTheBrake: a budget in Git that lets no node be replaced for drift stays when the brake ends.
func TestABudgetOfGitMayLookLikeTheBrake(t *testing.T) {
	none := map[string]any{"nodes": "0", "reasons": []any{"Drifted"}}
	lease := plan.Lease{Nodes: 1, Until: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)}.Budgets()
	for name, budgets := range map[string][]any{"the brake": {none, none}, "a wave": append([]any{none}, lease...)} {
		pool := braked(budgets)
		if diff := cmp.Diff([]any{none}, plan.WithoutBrake(pool)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		patch, err := plan.BrakeEnds(pool)
		if want := `"path":"/spec/disruption/budgets","value":[{"nodes":"0","reasons":["Drifted"]}]},{"op":"remove","path":"/metadata/managedFields/1"}]`; err != nil || !strings.HasSuffix(string(patch), want) {
			t.Errorf("%s: %s, error %v", name, patch, err)
		}
		pool.SetManagedFields(nil)
		if diff := cmp.Diff(budgets, plan.WithoutBrake(pool)); diff != "" {
			t.Errorf("%s, of Git: %s", name, diff)
		}
		if patch, err := plan.BrakeEnds(pool); patch != nil || err != nil {
			t.Errorf("%s, of Git: %s, error %v", name, patch, err)
		}
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

// TestBudgetsOfABrakedPoolCount: a commit that changes only the disruption budgets of a NodePool whose rollout is stopped,
// or proceeds in waves, is held, waits and counts like that of any other; what waits is not restored when the brake ends.
func TestBudgetsOfABrakedPoolCount(t *testing.T) {
	for name, made := range map[string]func(budgets string) string{
		"outdated nodes": func(budgets string) string { return budgeted("a", budgets, true) },
		"consolidation": func(budgets string) string {
			return tainted("a", "disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 30s, budgets: "+budgets+"}")
		},
	} {
		for _, frozen := range []bool{false, true} {
			scripts := map[string]string{}
			for _, by := range []string{"nothing", "the brake", "a wave", "the brake ends"} {
				c := newCluster(t)
				c.policy.Brakes, c.policy.Now = true, time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
				if frozen {
					c.policy.Guard.Freeze = []v1alpha1.GuardFreeze{{From: "2020-01-01", To: "2999-12-31", Reason: "audit"}}
				}
				c.have(t, owner, class("default"), made(`[{nodes: "10%"}]`))
				c.live.NodeClaims = claims("a", 40, func(n *plan.NodeClaim) {
					if name == "outdated nodes" {
						n.Drifted, n.DriftReason = true, plan.DriftOfPool
					}
				})
				switch by {
				case "the brake", "the brake ends":
					c.policy.Braked = map[string]bool{"a": by == "the brake"}
					c.lease(t, "a", nil)
				case "a wave":
					c.policy.Braked = map[string]bool{"a": true}
					c.lease(t, "a", plan.Lease{Nodes: 1, Until: c.policy.Now.Add(time.Hour)}.Budgets())
				}
				got := strings.Join(script(c.plan(t, class("default"), made(`[{nodes: "100%"}]`))), "\n")
				if by == "the brake ends" { // the change also removes the brake
					got = strings.Replace(got, `budgets:[{"nodes":"10%"},{"nodes":"0","reasons":["Drifted"]}]→[{"nodes":"100%"}]`, "budgets[0].nodes:10%→100%", 1)
				}
				scripts[by] = got
			}
			if scripts["nothing"] == "" {
				t.Errorf("%s, frozen %t: no change at all", name, frozen)
			}
			for by, got := range scripts {
				if diff := cmp.Diff(scripts["nothing"], got); diff != "" {
					t.Errorf("%s, frozen %t, limited by %s (-without +with):\n%s", name, frozen, by, diff)
				}
			}
		}
	}
}
