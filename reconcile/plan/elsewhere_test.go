package plan_test

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestLeavingElsewhere: of two removals at once one counts the other.
func TestLeavingElsewhere(t *testing.T) {
	at := func(second int) time.Time { return time.Date(2026, 3, 1, 12, 0, second, 0, time.UTC) }
	removal := func(phase v1alpha1.RemovalPhase, second int) v1alpha1.Removal {
		return v1alpha1.Removal{Kind: render.NodePool, Name: "pool", Phase: phase, RecordedAt: metav1.NewTime(at(second))}
	}
	class := v1alpha1.Removal{Kind: render.EC2NodeClass, Name: "class", Phase: v1alpha1.RemovalDraining}
	for name, c := range map[string]struct {
		mine, theirs []v1alpha1.Removal
		// counts says whether mine counts theirs, and counted whether theirs counts mine.
		counts, counted bool
	}{
		"nothing":            {},
		"a class":            {theirs: []v1alpha1.Removal{class}},
		"theirs has begun":   {mine: []v1alpha1.Removal{removal(v1alpha1.RemovalPacing, 1)}, theirs: []v1alpha1.Removal{removal(v1alpha1.RemovalDraining, 2)}, counts: true, counted: true},
		"theirs is held":     {theirs: []v1alpha1.Removal{removal(v1alpha1.RemovalHeld, 1)}},
		"theirs is gone":     {theirs: []v1alpha1.Removal{removal(v1alpha1.RemovalGone, 1)}},
		"theirs is recorded": {theirs: []v1alpha1.Removal{removal(v1alpha1.RemovalPacing, 1)}, counts: true},
		"theirs is first":    {mine: []v1alpha1.Removal{removal(v1alpha1.RemovalPacing, 2)}, theirs: []v1alpha1.Removal{removal(v1alpha1.RemovalPacing, 1)}, counts: true},
		"theirs is second":   {mine: []v1alpha1.Removal{removal(v1alpha1.RemovalPacing, 1)}, theirs: []v1alpha1.Removal{removal(v1alpha1.RemovalPacing, 2)}, counted: true},
		"at once":            {mine: []v1alpha1.Removal{removal(v1alpha1.RemovalPacing, 1)}, theirs: []v1alpha1.Removal{removal(v1alpha1.RemovalPacing, 1)}, counted: true},
		"mine is held since": {mine: []v1alpha1.Removal{removal(v1alpha1.RemovalHeld, 2)}, theirs: []v1alpha1.Removal{removal(v1alpha1.RemovalPacing, 1)}, counts: true},
	} {
		t.Run(name, func(t *testing.T) {
			sync := func(name string, removals []v1alpha1.Removal) v1alpha1.NodeSync {
				return v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Status: v1alpha1.NodeSyncStatus{Removals: removals}}
			}
			all := []v1alpha1.NodeSync{sync("mine", c.mine), sync("theirs", c.theirs)}
			of := func(counts bool) []render.Ref {
				if counts {
					return []render.Ref{{Kind: render.NodePool, Name: "pool"}}
				}
				return nil
			}
			if got := plan.LeavingElsewhere(all, &all[0]); !slices.Equal(got, of(c.counts)) {
				t.Errorf("mine counts %v", got)
			}
			if got := plan.LeavingElsewhere(all, &all[1]); !slices.Equal(got, of(c.counted)) {
				t.Errorf("theirs counts %v", got)
			}
		})
	}
}
