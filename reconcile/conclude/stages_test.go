package conclude

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

func TestStagesKeepSince(t *testing.T) {
	early, late := time.Unix(1000, 0), time.Unix(2000, 0)
	list := func(at time.Time, before []v1alpha1.StageStatus, controller Stage) []v1alpha1.StageStatus {
		controller.Name = render.StageController
		s := &Step{Began: at}
		s.Stages = []Stage{{Name: render.StageCRDs, Ready: true}, controller}
		return s.listStages(before)
	}
	before := list(early, nil, Stage{Message: "a"})
	for _, stage := range list(late, before, Stage{Message: "b"}) {
		if !stage.Since.Time.Equal(early) {
			t.Errorf("%s is %s since %s: only its words have changed", stage.Name, stage.State, stage.Since)
		}
	}
	after := list(late, before, Stage{Ready: true})
	for i, want := range []time.Time{early, late} {
		if !after[i].Since.Time.Equal(want) {
			t.Errorf("%s since %s, want %s", after[i].Name, after[i].Since, want)
		}
	}
}

// TestStagesOfABrokenCommit: where nothing was rendered, the stages stay.
func TestStagesOfABrokenCommit(t *testing.T) {
	before := []v1alpha1.StageStatus{{Name: "CRDs", State: v1alpha1.StageDone}}
	if diff := cmp.Diff(before, (&Step{}).listStages(before)); diff != "" {
		t.Error(diff)
	}
}
