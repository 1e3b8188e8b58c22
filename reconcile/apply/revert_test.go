package apply_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply/applytest"
)

func TestARevertTakesBackWhatTheRemovalDid(t *testing.T) {
	tests := map[string]struct {
		git    string
		growth map[string]any
		writes int
	}{
		"limits of its own":    {git: pool, growth: map[string]any{"limits": map[string]any{"cpu": "0"}}, writes: 1},
		"no limits of its own": {git: poolWithoutLimits, growth: map[string]any{"limits": map[string]any{"cpu": "0"}}, writes: 2},
		"replicas":             {git: staticPool, growth: map[string]any{"replicas": int64(0)}, writes: 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, class, test.git)
			before := c.Object(general)
			c.stopGrowth(t, test.growth)
			if cmp.Equal(before.Object["spec"], c.Object(general).Object["spec"]) {
				t.Fatal("growth was not stopped")
			}
			if err := c.sync(t, class, test.git).Err(); err != nil {
				t.Fatal(err)
			}
			if writes := c.Writes(); len(writes) != test.writes {
				t.Errorf("%d writes, want %d: %v", len(writes), test.writes, writes)
			}
			after := c.Object(general)
			if limits, ok := spec(t, after, "limits").(map[string]any); ok && len(limits) == 0 {
				unstructured.RemoveNestedField(after.Object, "spec", "limits")
			}
			if diff := cmp.Diff(before.Object["spec"], after.Object["spec"]); diff != "" {
				t.Errorf("not as it was (-before +after):\n%s", diff)
			}
			c.removals = nil
			c.settled(t, class, test.git)
		})
	}
}

func TestAKillBetweenTheTwoStepsOfARevertIsPutRight(t *testing.T) {
	c := newCluster(t, class, poolWithoutLimits)
	c.stopGrowth(t, map[string]any{"limits": map[string]any{"cpu": "0"}})
	c.Fault = func(w applytest.Write) error {
		if w.Manager == v1alpha1.RemovalFieldManager {
			return context.DeadlineExceeded
		}
		return nil
	}
	if err := c.sync(t, class, poolWithoutLimits).Err(); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	// The record is lost: only the object itself shows its state.
	c.Fault, c.removals = nil, nil
	if err := c.sync(t, class, poolWithoutLimits).Err(); err != nil {
		t.Fatal(err)
	}
	if got := spec(t, c.Object(general), "limits", "cpu"); got != nil {
		t.Errorf("limits.cpu is still %v", got)
	}
	c.settled(t, class, poolWithoutLimits)
}
