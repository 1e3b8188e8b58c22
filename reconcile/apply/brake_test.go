package apply_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

const poolWithBudgets = pool + `  disruption: {consolidateAfter: 30s, budgets: [{nodes: "2"}, {nodes: "0", schedule: "0 9 * * *", duration: 8h}]}
`

var (
	twoBudgets = []any{map[string]any{"nodes": "2"}, map[string]any{"nodes": "0", "schedule": "0 9 * * *", "duration": "8h"}}
	theBrake   = map[string]any{"nodes": "0", "reasons": []any{"Drifted"}}
)

// brake applies a brake to a pool.
func (c *cluster) brake(t *testing.T, text string) {
	t.Helper()
	budgets, err := plan.Braked(c.Definition(t, text))
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"disruption": map[string]any{"budgets": budgets}}}}
	object.SetAPIVersion("karpenter.sh/v1")
	object.SetKind(render.NodePool)
	object.SetName(general.Name)
	if err := c.ApplyAs(t.Context(), object, v1alpha1.BrakeFieldManager, true); err != nil {
		t.Fatal(err)
	}
	if braked, err := plan.IsBraked(c.Object(general), budgets); !braked || err != nil {
		t.Fatalf("braked %t, error %v: %v", braked, err, spec(t, c.Object(general), "disruption"))
	}
	c.policy.Braked = map[string]bool{general.Name: true}
	c.Writes()
}

func (c *cluster) budgets(t *testing.T) []any {
	t.Helper()
	found, _ := spec(t, c.Object(general), "disruption", "budgets").([]any)
	return found
}

// TestABrakeAndItsRelease: while a pool is braked, its budgets are not touched and everything else matches Git; then
// the budgets match Git again, and only plumbline's manager owns them.
func TestABrakeAndItsRelease(t *testing.T) {
	for name, git := range map[string]string{"budgets of its own": poolWithBudgets, "those of the CRD": pool} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, class, git)
			before := c.Object(general)
			c.brake(t, git)
			c.settled(t, class, git)
			changed := strings.Replace(git, `cpu: "100"`, `cpu: "200"`, 1)
			if err := c.sync(t, class, changed).Err(); err != nil {
				t.Fatal(err)
			}
			if budgets := c.budgets(t); !cmp.Equal(budgets[len(budgets)-1], any(theBrake)) {
				t.Errorf("the brake went with another change: %v", budgets)
			}
			if cpu := spec(t, c.Object(general), "limits", "cpu"); cpu != "200" {
				t.Errorf("a braked pool keeps what Git has changed: limits.cpu is %v", cpu)
			}
			c.settled(t, class, changed)
			c.policy.Braked = nil
			p := c.plan(t, class, git)
			if len(p.Changes) != 1 || p.Changes[0].Action != plan.TakeBack || p.Changes[0].Drift {
				t.Fatalf("the release is %+v", p.Changes)
			}
			if err := c.sync(t, class, git).Err(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before.Object["spec"], c.Object(general).Object["spec"]); diff != "" {
				t.Errorf("not as it was (-before +after):\n%s", diff)
			}
			for _, entry := range c.Object(general).GetManagedFields() {
				if entry.Manager == v1alpha1.BrakeFieldManager {
					t.Errorf("the brake still owns %s", entry.FieldsV1)
				}
			}
			c.settled(t, class, git)
		})
	}
}

// TestARemovalOfABrakedPool: reverting it keeps the brake if the rollout is stopped, and releases it otherwise.
func TestARemovalOfABrakedPool(t *testing.T) {
	for name, braked := range map[string]bool{"stopped": true, "not stopped": false} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, class, poolWithBudgets)
			c.brake(t, poolWithBudgets)
			c.policy.Braked[general.Name] = braked
			c.stopGrowth(t, map[string]any{"limits": map[string]any{"cpu": "0"}})
			if err := c.sync(t, class, poolWithBudgets).Err(); err != nil {
				t.Fatal(err)
			}
			want := twoBudgets
			if braked {
				want = append(want[:2:2], theBrake)
			}
			if diff := cmp.Diff(want, c.budgets(t)); diff != "" {
				t.Errorf("budgets (-want +got):\n%s", diff)
			}
			if cpu := spec(t, c.Object(general), "limits", "cpu"); cpu != "100" {
				t.Errorf("limits.cpu is %v", cpu)
			}
			c.removals = nil
			c.settled(t, class, poolWithBudgets)
		})
	}
}

// TestAnEditOfTheBrake: an edit by hand is reverted to Git, and then the brake is applied again.
func TestAnEditOfTheBrake(t *testing.T) {
	c := newCluster(t, class, poolWithBudgets)
	c.brake(t, poolWithBudgets)
	edit := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"disruption": map[string]any{"budgets": []any{map[string]any{"nodes": "100%"}}}}}}
	edit.SetAPIVersion("karpenter.sh/v1")
	edit.SetKind(render.NodePool)
	edit.SetName(general.Name)
	if err := c.ApplyAs(t.Context(), edit, "kubectl", true); err != nil {
		t.Fatal(err)
	}
	if err := c.sync(t, class, poolWithBudgets).Err(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(twoBudgets, c.budgets(t)); diff != "" {
		t.Errorf("budgets (-want +got):\n%s", diff)
	}
}

// TestGitHasTheBudgetsOfTheBrake: even if Git contains the same budgets, the brake's manager owns none of them after
// its release.
func TestGitHasTheBudgetsOfTheBrake(t *testing.T) {
	c := newCluster(t, class, poolWithBudgets)
	c.brake(t, poolWithBudgets)
	c.policy.Braked = nil
	same := strings.Replace(poolWithBudgets, "duration: 8h}]", "duration: 8h}, {nodes: \"0\", reasons: [Drifted]}]", 1)
	if err := c.sync(t, class, same).Err(); err != nil {
		t.Fatal(err)
	}
	for _, entry := range c.Object(general).GetManagedFields() {
		if entry.Manager == v1alpha1.BrakeFieldManager {
			t.Errorf("the brake still owns %s", entry.FieldsV1)
		}
	}
	if budgets := c.budgets(t); len(budgets) != 3 {
		t.Errorf("budgets %v", budgets)
	}
	c.settled(t, class, same)
}
