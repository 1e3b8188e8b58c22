package conclude

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
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

func setOf(refs ...render.Ref) *render.Set {
	set := &render.Set{}
	for _, ref := range refs {
		set.Objects = append(set.Objects, render.Object{Ref: ref})
	}
	return set
}

// TestStages says how far each has come; the first definition that is not Ready speaks.
func TestStages(t *testing.T) {
	class, general, batch := render.Ref{Kind: render.EC2NodeClass, Name: "default"}, render.Ref{Kind: render.NodePool, Name: "general"}, render.Ref{Kind: render.NodePool, Name: "batch"}
	yes := observe.Readiness{Ready: true}
	cases := map[string]struct {
		crds, controller observe.Readiness
		definitions      observe.ByRef
		want             []string
	}{
		"nothing yet": {
			crds: observe.Readiness{Message: "crd x is not there yet"},
			want: []string{"CRDs Waiting crd x is not there yet", "Controller Waiting ", "NodeClasses Waiting EC2NodeClass/default is not applied yet", "NodePools Waiting NodePool/general is not applied yet"},
		},
		"all but one pool": {
			crds: yes, controller: yes,
			definitions: observe.ByRef{class: yes, general: yes, batch: {Message: "NodePool/batch is not Ready"}},
			want:        []string{"CRDs Done ", "Controller Done ", "NodeClasses Done ", "NodePools Waiting NodePool/batch is not Ready"},
		},
		"all": {
			crds: yes, controller: yes,
			definitions: observe.ByRef{class: yes, general: yes, batch: yes},
			want:        []string{"CRDs Done ", "Controller Done ", "NodeClasses Done ", "NodePools Done "},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, s := range Stages(setOf(class, general, batch), c.crds, c.controller, c.definitions) {
				state := "Waiting"
				if s.Ready {
					state = "Done"
				}
				got = append(got, string(s.Name)+" "+state+" "+s.Message)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
