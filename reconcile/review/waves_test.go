package review

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// TestAddWaves shows the waves of a plan, and how much longer they take.
func TestAddWaves(t *testing.T) {
	paces := func() []Pace {
		return []Pace{{Pool: "a", Nodes: 20}, {Pool: "b", Nodes: 3}, {Pool: "c", Nodes: 9, Leaves: true}, {Pool: "d", Nodes: 9, Unlaunchable: true}}
	}
	want := paces()
	want[0].Waves, want[0].WavesAdd = []int{1, 2, 4, 8, 5}, 50*60
	want[0].Lines = []string{"NodePool/a: in 5 waves of 1, 2, 4, 8, 5 nodes, which take 50m longer at least"}
	got := paces()
	AddWaves(got, v1alpha1.RolloutPolicy{}) // the default
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	got = paces()
	AddWaves(got, v1alpha1.RolloutPolicy{Waves: &v1alpha1.RolloutWaves{Disabled: true}})
	if diff := cmp.Diff(paces(), got); diff != "" {
		t.Error(diff)
	}
}
