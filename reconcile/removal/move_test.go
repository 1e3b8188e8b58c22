package removal

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// moving returns a step in which Git contains some NodePools that exist in the cluster; full ones have no room to grow,
// and broken ones are not Ready.
func moving(t *testing.T, git ...string) *Step {
	t.Helper()
	s := newBed(t).step()
	s.Applied = true
	for _, name := range git {
		pool, ref := growingPool(name), render.Ref{Kind: render.NodePool, Name: name}
		switch name {
		case "broken":
			unstructured.RemoveNestedField(pool.Object, "status", "conditions")
		case "full":
			pool.Object["status"].(map[string]any)["resources"] = map[string]any{"cpu": "100"}
		}
		s.Set.Objects = append(s.Set.Objects, render.Object{Ref: ref, Desired: pool})
		s.Live.Objects[ref], s.Ready[ref] = plan.NewObject(pool), cluster.Ready(plan.NewObject(pool))
	}
	return s
}

// TestAMoveWaitsForItsTargets checks that a move starts when each target is Ready, however old it is, and proceeds
// while one of them could take the pods; another pool is not enough.
func TestAMoveWaitsForItsTargets(t *testing.T) {
	for name, c := range map[string]struct {
		git, to             []string
		arrivals, successor Gate
	}{
		"it is Ready": {git: []string{"new", "other"}, to: []string{"new"}, arrivals: Gate{Open: true}, successor: Gate{Open: true}},
		"it is not Ready": {
			git: []string{"broken", "other"}, to: []string{"broken"},
			arrivals:  Gate{Message: "waiting for NodePool/broken, its replacement"},
			successor: Gate{Message: "none of its replacement NodePools can run the pods: NodePool/broken is not Ready"},
		},
		"one of two is not Ready": {
			git: []string{"broken", "new"}, to: []string{"broken", "new"},
			arrivals: Gate{Message: "waiting for NodePool/broken, its replacement"}, successor: Gate{Open: true},
		},
		"it is full, another is not": {
			git: []string{"full", "other"}, to: []string{"full"}, arrivals: Gate{Open: true},
			successor: Gate{Message: "none of its replacement NodePools can run the pods: NodePool/full has reached its limit of cpu"},
		},
		"one of two is full":      {git: []string{"full", "new"}, to: []string{"full", "new"}, arrivals: Gate{Open: true}, successor: Gate{Open: true}},
		"it has left Git as well": {git: []string{"other"}, to: []string{"new"}, arrivals: Gate{Open: true}, successor: Gate{Open: true}},
		"it is only a removal":    {git: []string{"full", "other"}, arrivals: Gate{Open: true}, successor: Gate{Open: true}},
	} {
		t.Run(name, func(t *testing.T) {
			s := moving(t, c.git...)
			r := v1alpha1.Removal{Kind: render.NodePool, Name: "old", MovesTo: c.to, RecordedAt: metav1.NewTime(now)}
			for what, gates := range map[string][2]Gate{"arrivals": {s.arrivalsGate()(r), c.arrivals}, "successor": {s.successorGate()(r), c.successor}} {
				if got, want := gates[0], gates[1]; got.Open != want.Open || !want.Open && got.Message != want.Message {
					t.Errorf("%s: %t %q, want %t %q", what, got.Open, got.Message, want.Open, want.Message)
				}
			}
		})
	}
}

// TestAMoveIsRecorded checks that a move is recorded while the plan contains it and nothing has started.
func TestAMoveIsRecorded(t *testing.T) {
	s := newBed(t).step()
	candidate := plan.Candidate{Ref: general, UID: "p1", MovesTo: []string{"general2"}}
	s.Plan.Removals = []plan.Candidate{candidate}
	s.recordCandidates()
	if got := s.Sync.Status.Removals; len(got) != 1 || len(got[0].MovesTo) != 1 || got[0].MovesTo[0] != "general2" {
		t.Fatalf("recorded %+v", got)
	}
	candidate.Recorded, candidate.MovesTo = true, nil
	s.Plan.Removals = []plan.Candidate{candidate}
	s.recordCandidates()
	if got := s.Sync.Status.Removals[0].MovesTo; got != nil {
		t.Errorf("it still moves to %q", got)
	}
}
