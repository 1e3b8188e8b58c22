package removal_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/removal"
)

// TestWhatIsHeldGrows checks that a pool whose removal is held after its growth was stopped may grow as before, even if
// nodes were terminated.
func TestWhatIsHeldGrows(t *testing.T) {
	for name, c := range map[string]struct {
		phase v1alpha1.RemovalPhase
		o     removal.Observation
		want  []string
	}{
		"stopped":             {v1alpha1.RemovalPacing, removal.Observation{Exists: true, Recorded: true, GrowthStopped: true, GrowthWithheld: true}, []string{"restore growth"}},
		"held, and stopped":   {v1alpha1.RemovalHeld, removal.Observation{Exists: true, Recorded: true, GrowthStopped: true, GrowthWithheld: true}, []string{"restore growth"}},
		"stopped by Git":      {v1alpha1.RemovalPacing, removal.Observation{Exists: true, Recorded: true, GrowthStopped: true}, nil},
		"not recorded":        {v1alpha1.RemovalPacing, removal.Observation{Exists: true, GrowthStopped: true, GrowthWithheld: true}, []string{"note"}},
		"nodes end already":   {v1alpha1.RemovalDraining, removal.Observation{Exists: true, Recorded: true, GrowthStopped: true, GrowthWithheld: true}, []string{"restore growth"}},
		"it is being deleted": {v1alpha1.RemovalPacing, removal.Observation{Exists: true, Terminating: true, Recorded: true, GrowthStopped: true, GrowthWithheld: true}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c.o.Hold = &removal.Hold{Reason: "LabelChanged", Message: "held"}
			after, actions := removal.Next(v1alpha1.Removal{Kind: "NodePool", Name: "general", Phase: c.phase}, c.o, time.Unix(1000, 0), time.Hour)
			var got []string
			for _, a := range actions {
				got = append(got, a.String())
			}
			if diff := cmp.Diff(c.want, got); diff != "" || after.Phase != v1alpha1.RemovalHeld {
				t.Errorf("phase %s, actions (-want +got):\n%s", after.Phase, diff)
			}
		})
	}
}
