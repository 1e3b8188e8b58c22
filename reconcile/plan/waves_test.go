package plan_test

import (
	"slices"
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

// TestWavesWait: with waves, a commit that replaces more than three nodes of a NodePool is written once no node of it can
// be replaced.
func TestWavesWait(t *testing.T) {
	const ten = `[{nodes: 10%}]`
	leased := plan.Lease{Nodes: 1, Until: time.Date(2026, 11, 28, 12, 2, 0, 0, time.UTC)}.Budgets()
	full := "[" + strings.Repeat("{nodes: 10%}, ", 48) + "{nodes: 10%}]"
	for name, test := range map[string]struct {
		nodes int
		off   bool
		full  bool // no room for the budgets of a wave
		// braked reports whether the limit is recorded, set whether it is set, and budgets are those that are set besides
		// Git's.
		braked, set bool
		budgets     []any
		action      plan.Action
		first       []string
	}{
		"four nodes":                 {nodes: 4, action: plan.Wait, first: []string{"a"}},
		"three nodes":                {nodes: 3, action: plan.Update},
		"no room for a wave":         {nodes: 4, full: true, action: plan.Hold},
		"no room, and braked":        {nodes: 4, full: true, braked: true, set: true, action: plan.Hold},
		"no room, and three nodes":   {nodes: 3, full: true, action: plan.Update},
		"no room, and waves are off": {nodes: 40, off: true, full: true, action: plan.Update},
		"waves are off":              {nodes: 40, off: true, action: plan.Update},
		"the limit is only recorded": {nodes: 4, braked: true, action: plan.Wait, first: []string{"a"}},
		"the limit is only set":      {nodes: 4, set: true, action: plan.Wait, first: []string{"a"}},
		"no node can be replaced":    {nodes: 4, braked: true, set: true, action: plan.Update},
		"an earlier wave is open":    {nodes: 4, braked: true, set: true, budgets: leased, action: plan.Wait, first: []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.policy.Brakes, c.policy.Waves, c.policy.Now = true, !test.off, time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
			c.policy.Braked = map[string]bool{"a": test.braked}
			budgets := ten
			if test.full {
				budgets = full
			}
			c.have(t, owner, class("default"), budgeted("a", budgets, false))
			if test.set {
				c.lease(t, "a", test.budgets)
			}
			c.live.NodeClaims = claims("a", test.nodes)
			made := c.plan(t, class("default"), budgeted("a", budgets, true))
			at := slices.IndexFunc(made.Changes, func(c plan.Change) bool { return c.Ref == poolRef("a") })
			if at < 0 {
				t.Fatalf("plan: %v", script(made))
			}
			if diff := cmp.Diff([]any{test.action, test.first}, []any{made.Changes[at].Action, made.Changes[at].BrakesFirst}); diff != "" {
				t.Errorf("action and pools (-want +got):\n%s", diff)
			}
		})
	}
}

// TestARevertDoesNotWaitForWaves: a commit that brings at least as many outdated nodes back as it replaces is written at
// once, and named as a revert for the wave in progress.
func TestARevertDoesNotWaitForWaves(t *testing.T) {
	for name, test := range map[string]struct {
		outdated, nodes int
		action          plan.Action
		reverts         []string
	}{
		"most nodes are outdated":     {outdated: 6, nodes: 10, action: plan.Update, reverts: []string{"a"}},
		"as many as it replaces":      {outdated: 5, nodes: 10, action: plan.Update, reverts: []string{"a"}},
		"fewer than those it changes": {outdated: 4, nodes: 10, action: plan.Wait},
		"none is outdated":            {nodes: 10, action: plan.Wait},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.policy.Brakes, c.policy.Waves, c.policy.Now = true, true, time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
			c.policy.CABundle = bundle
			before, live := pool("a", "default"), tainted("a")
			c.have(t, owner, class("default"), live)
			c.Edit(t, poolRef("a"), "karpenter", func(o *unstructured.Unstructured) { o.SetAnnotations(c.notes(t, live)) })
			c.live.NodeClaims = claims("a", test.nodes)
			for i := range c.live.NodeClaims {
				n, from := &c.live.NodeClaims[i], live
				if i < test.outdated {
					n.Drifted, n.DriftReason, from = true, plan.DriftOfPool, before
				}
				n.Hashes = plan.HashesOf(c.notes(t, from))
			}
			made := c.plan(t, class("default"), before)
			at := slices.IndexFunc(made.Changes, func(c plan.Change) bool { return c.Ref == poolRef("a") })
			if at < 0 {
				t.Fatalf("plan: %v", script(made))
			}
			if diff := cmp.Diff([]any{test.action, test.reverts}, []any{made.Changes[at].Action, made.Changes[at].RevertsWaves}); diff != "" {
				t.Errorf("action and pools (-want +got):\n%s", diff)
			}
		})
	}
}

// lease sets these disruption budgets on a NodePool besides 10%, by default those of the brake.
func (c *drawnCluster) lease(t *testing.T, pool string, budgets []any) {
	t.Helper()
	if budgets == nil {
		budgets = plan.Lease{}.Budgets()
	}
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"disruption": map[string]any{
		"budgets": append([]any{map[string]any{"nodes": "10%"}}, budgets...),
	}}}}
	o.SetGroupVersionKind(c.Object(poolRef(pool)).GroupVersionKind())
	o.SetName(pool)
	if err := c.ApplyAs(t.Context(), o, v1alpha1.BrakeFieldManager, true); err != nil {
		t.Fatal(err)
	}
}

// TestLease writes and reads the disruption budgets of a Lease.
func TestLease(t *testing.T) {
	now := time.Date(2026, 12, 31, 23, 59, 20, 0, time.UTC)
	lease := plan.Lease{Nodes: 3, Until: time.Date(2027, 1, 1, 0, 1, 0, 0, time.UTC)}
	git := []any{map[string]any{"nodes": "10%"}, map[string]any{"nodes": "2", "reasons": []any{"Drifted"}}}
	object := render.Object{Ref: poolRef("a"), Defaulted: pooled(git)}
	all, err := plan.Leased(object, plan.Lease{Nodes: plan.AllNodes, Until: lease.Until})
	if err != nil {
		t.Fatal(err)
	}
	if got, is := plan.LeaseOf(byBrake(pooled(all)), object, now); !is || got.Nodes != plan.AllNodes || !got.Until.Equal(lease.Until) {
		t.Errorf("without a limit it reads %+v, %t", got, is)
	}
	budgets, err := plan.Leased(object, lease)
	if err != nil {
		t.Fatal(err)
	}
	live := pooled(budgets)
	if _, is := plan.LeaseOf(live, object, now); is {
		t.Error("budgets of another manager are a lease")
	}
	byBrake(live)
	if got, is := plan.LeaseOf(live, object, now); !is || got.Nodes != 3 || !got.Until.Equal(lease.Until) {
		t.Errorf("it reads %+v, %t", got, is)
	}
	if diff := cmp.Diff(git, plan.WithoutBrake(live)); diff != "" {
		t.Error(diff)
	}
	closed, err := plan.Braked(object)
	if err != nil {
		t.Fatal(err)
	}
	if _, is := plan.LeaseOf(byBrake(pooled(closed)), object, now); is {
		t.Error("the brake is a lease")
	}
	if _, is := plan.LeaseOf(byBrake(pooled(budgets[1:])), object, now); is {
		t.Error("it is a lease without the budgets in Git")
	}
	full := render.Object{Ref: poolRef("a"), Defaulted: pooled(slices.Repeat([]any{map[string]any{"nodes": "1"}}, plan.MaxBudgets-1))}
	if _, err := plan.Leased(full, lease); err == nil {
		t.Error("it exceeds the maximum number of budgets")
	}
	if _, err := plan.Leased(full, plan.Lease{}); err != nil {
		t.Error(err)
	}
}

func pooled(budgets []any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": map[string]any{"name": "a"},
		"spec": map[string]any{"disruption": map[string]any{"budgets": budgets}},
	}}
}

// byBrake makes the brake's manager the one that has applied the budgets.
func byBrake(pool *unstructured.Unstructured) *unstructured.Unstructured {
	pool.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: v1alpha1.BrakeFieldManager, Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:disruption":{"f:budgets":{}}}}`),
	}})
	return pool
}

// TestWaveSizes shows how large the waves are.
func TestWaveSizes(t *testing.T) {
	for name, c := range map[string]struct {
		policy v1alpha1.RolloutWaves
		from   int32
		nodes  int
		want   []int
	}{
		"doubled":          {policy: v1alpha1.RolloutWaves{Start: 1, Factor: 2}, nodes: 20, want: []int{1, 2, 4, 8, 5}},
		"from the third":   {policy: v1alpha1.RolloutWaves{Start: 1, Factor: 2}, from: 3, nodes: 17, want: []int{4, 8, 5}},
		"the rest at once": {policy: v1alpha1.RolloutWaves{Start: 1, Factor: 10}, nodes: 1000, want: []int{1, 10, 100, 889}},
		"no growth":        {policy: v1alpha1.RolloutWaves{Start: 2, Factor: 1}, nodes: 5, want: []int{2, 2, 1}},
		"unknown":          {policy: v1alpha1.RolloutWaves{Start: 1, Factor: 2}, want: []int{0}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, plan.WaveSizes(&c.policy, c.from, c.nodes)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestWithoutLeftover: a Lease at the end of the budgets in force is left out, unless it comes from Git.
func TestWithoutLeftover(t *testing.T) {
	git := []any{map[string]any{"nodes": "7"}}
	leased := append(slices.Clone(git), plan.Lease{Nodes: 1, Until: time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)}.Budgets()...)
	if diff := cmp.Diff(git, plan.WithoutLeftover(leased, git)); diff != "" {
		t.Errorf("a leftover (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(leased, plan.WithoutLeftover(leased, leased)); diff != "" {
		t.Errorf("from Git (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(git, plan.WithoutLeftover(git, nil)); diff != "" {
		t.Errorf("none (-want +got):\n%s", diff)
	}
}
