package conclude

import (
	"fmt"
	"slices"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/render"
)

// Stages says how far each Stage of a Set has come; nil without a Set.
func Stages(set *render.Set, crds, controller observe.Readiness, definitions observe.ByRef) []Stage {
	if set == nil {
		return nil
	}
	stage := func(name render.Stage, r observe.Readiness) Stage {
		return Stage{Name: name, Ready: r.Ready, Message: r.Message}
	}
	return []Stage{
		stage(render.StageCRDs, crds),
		stage(render.StageController, controller),
		stage(render.StageNodeClasses, definitions.Of(set, render.EC2NodeClass)),
		stage(render.StageNodePools, definitions.Of(set, render.NodePool)),
	}
}

// listStages turns them into status. Where none was looked at, they keep what they had.
func (s *Step) listStages(before []v1alpha1.StageStatus) []v1alpha1.StageStatus {
	if s.Stages == nil {
		return before
	}
	list := make([]v1alpha1.StageStatus, 0, len(s.Stages))
	for _, stage := range s.Stages {
		status := v1alpha1.StageStatus{Name: string(stage.Name), State: v1alpha1.StageWaiting, Message: stage.Message, Since: s.timestamp()}
		if stage.Ready {
			status.State = v1alpha1.StageDone
		}
		for _, old := range before {
			if old.Name == status.Name && old.State == status.State {
				status.Since = old.Since
			}
		}
		list = append(list, status)
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
