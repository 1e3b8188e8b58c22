package reconcile

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/install"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/render"
)

func setOf(refs ...render.Ref) *render.Set {
	set := &render.Set{}
	for _, ref := range refs {
		set.Objects = append(set.Objects, render.Object{Ref: ref})
	}
	return set
}

func TestStages(t *testing.T) {
	class, general, batch := render.Ref{Kind: render.EC2NodeClass, Name: "default"}, render.Ref{Kind: render.NodePool, Name: "general"}, render.Ref{Kind: render.NodePool, Name: "batch"}
	yes := observe.Readiness{Ready: true}
	cases := map[string]struct {
		stages stages
		want   []string
	}{
		"nothing yet": {
			stages{Installed: install.Installed{CRDs: observe.Readiness{Message: "crd x is not there yet"}}},
			[]string{"CRDs Waiting crd x is not there yet", "Controller Waiting ", "NodeClasses Waiting EC2NodeClass/default is not applied yet", "NodePools Waiting NodePool/general is not applied yet"},
		},
		"all but one pool": {
			stages{Installed: install.Installed{CRDs: yes, Controller: yes}, objects: map[render.Ref]observe.Readiness{class: yes, general: yes, batch: {Message: "NodePool/batch is not Ready"}}},
			[]string{"CRDs Done ", "Controller Done ", "NodeClasses Done ", "NodePools Waiting NodePool/batch is not Ready"},
		},
		"all": {
			stages{Installed: install.Installed{CRDs: yes, Controller: yes}, objects: map[render.Ref]observe.Readiness{class: yes, general: yes, batch: yes}},
			[]string{"CRDs Done ", "Controller Done ", "NodeClasses Done ", "NodePools Done "},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, s := range c.stages.list(setOf(class, general, batch), nil, metav1.Now()) {
				got = append(got, s.Name+" "+string(s.State)+" "+s.Message)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestStagesKeepSince(t *testing.T) {
	early, late := metav1.Unix(1000, 0), metav1.Unix(2000, 0)
	yes := observe.Readiness{Ready: true}
	before := stages{Installed: install.Installed{CRDs: yes, Controller: observe.Readiness{Message: "a"}}}.list(setOf(), nil, early)
	after := stages{Installed: install.Installed{CRDs: yes, Controller: observe.Readiness{Message: "b"}}}.list(setOf(), before, late)
	for i := range after {
		if !after[i].Since.Equal(&early) {
			t.Errorf("%s is %s since %s: only its words have changed", after[i].Name, after[i].State, after[i].Since)
		}
	}
	after = stages{Installed: install.Installed{CRDs: yes, Controller: yes}}.list(setOf(), before, late)
	for i, want := range []time.Time{early.Time, late.Time, early.Time, early.Time} {
		if !after[i].Since.Time.Equal(want) {
			t.Errorf("%s since %s, want %s", after[i].Name, after[i].Since, want)
		}
	}
}

// TestStagesOfABrokenCommit: where nothing was rendered, the stages stay.
func TestStagesOfABrokenCommit(t *testing.T) {
	before := []v1alpha1.StageStatus{{Name: "CRDs", State: v1alpha1.StageDone}}
	if diff := cmp.Diff(before, stages{}.list(nil, before, metav1.Now())); diff != "" {
		t.Error(diff)
	}
}
