package reconcile

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/install"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/render"
)

// stages is how far a pass has got, by Stage.
type stages struct {
	install.Installed
	// objects is the readiness of each definition that was looked at.
	objects map[render.Ref]observe.Readiness
}

// list turns it into status. A Stage that the pass did not come to keeps what
// it had.
func (s stages) list(set *render.Set, before []v1alpha1.StageStatus, now metav1.Time) []v1alpha1.StageStatus {
	if set == nil {
		return before
	}
	list := []v1alpha1.StageStatus{
		stageStatus(render.StageCRDs, s.CRDs),
		stageStatus(render.StageController, s.Controller),
		stageStatus(render.StageNodeClasses, s.of(set, render.EC2NodeClass)),
		stageStatus(render.StageNodePools, s.of(set, render.NodePool)),
	}
	for i := range list {
		list[i].Since = now
		for _, old := range before {
			if old.Name == list[i].Name && old.State == list[i].State {
				list[i].Since = old.Since
			}
		}
	}
	return list
}

// missing are the messages of Stages that are done though something of them is
// missing, and that were not told before.
func missing(now, before []v1alpha1.StageStatus) []string {
	var found []string
	for _, stage := range now {
		told := slices.ContainsFunc(before, func(old v1alpha1.StageStatus) bool {
			return old.Name == stage.Name && old.State == stage.State && old.Message == stage.Message
		})
		if stage.State == v1alpha1.StageDone && stage.Message != "" && !told {
			found = append(found, fmt.Sprintf("%s: %s", stage.Name, stage.Message))
		}
	}
	return found
}

// of sums up the objects of one kind: the first that is not Ready speaks.
func (s stages) of(set *render.Set, kind string) observe.Readiness {
	for _, object := range set.Objects {
		if object.Ref.Kind != kind {
			continue
		}
		ready, seen := s.objects[object.Ref]
		if !seen {
			return observe.Readiness{Message: object.Ref.String() + " is not applied yet"}
		}
		if !ready.Ready {
			return ready
		}
	}
	return observe.Readiness{Ready: true}
}

func stageStatus(name render.Stage, ready observe.Readiness) v1alpha1.StageStatus {
	status := v1alpha1.StageStatus{Name: string(name), State: v1alpha1.StageDone, Message: ready.Message}
	if !ready.Ready {
		status.State = v1alpha1.StageWaiting
	}
	return status
}
