package reconcile

import (
	"testing"

	"github.com/google/go-cmp/cmp"

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
			for _, s := range c.stages.list(setOf(class, general, batch)) {
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
