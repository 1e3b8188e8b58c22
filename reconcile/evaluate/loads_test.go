package evaluate

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// TestLoadsAreReadOnceAMinute for the same nodes, however many reconciles plan a commit that is held.
func TestLoadsAreReadOnceAMinute(t *testing.T) {
	now, reads := time.Unix(1000, 0), 0
	s := &PlanStep{Memory: &PlanMemory{}, Now: now, Loads: func(context.Context, []plan.LoadQuestion) map[types.UID]plan.Load {
		reads++
		return map[types.UID]plan.Load{"a": {Pods: reads}}
	}}
	of := func(uid types.UID) []plan.LoadQuestion {
		return []plan.LoadQuestion{{Pool: "pool", Claims: []*plan.NodeClaim{{UID: uid}}, Pods: true}}
	}
	for _, c := range []struct {
		name  string
		after time.Duration
		of    types.UID
		reads int
	}{
		{"first", 0, "a", 1},
		{"within a minute", 59 * time.Second, "a", 1},
		{"another node", 59 * time.Second, "b", 2},
		{"a minute later", 2 * time.Minute, "b", 3},
		{"a clock that was set back", time.Minute, "b", 4},
	} {
		s.Now = now.Add(c.after)
		if found := s.readLoads()(t.Context(), of(c.of)); found["a"].Pods != c.reads {
			t.Errorf("%s: read %d times, want %d", c.name, found["a"].Pods, c.reads)
		}
	}
	s.Loads = nil
	if s.readLoads() != nil {
		t.Error("nothing is read, and it would be")
	}
}
