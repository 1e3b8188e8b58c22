package conclude

import (
	"cmp"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/report/queue"
)

// InstanceKind is the kind of an EC2 instance among what drifts.
const InstanceKind = "Instance"

// maxInstances is how many instances the status names.
const maxInstances = 20

// noteInstances keeps in the status which instances differ, and since when.
func (s *Step) noteInstances() {
	if s.Instances == nil {
		return
	}
	since := map[string]metav1.Time{}
	if before := s.Before.Status.Instances; before != nil {
		for _, i := range before.Instances {
			since[i.ID] = i.Since
		}
	}
	s.Sync.Status.Instances = nil
	if s.Instances.Count == 0 && s.Instances.Failure == "" && s.Instances.Volumes == nil && s.Instances.Left == nil {
		return
	}
	noted := &v1alpha1.InstanceDrift{Failure: s.Instances.Failure, Count: s.Instances.Count, Orphaned: s.Instances.Orphaned, Volumes: s.notedVolumes(), Left: s.notedResources()}
	for _, i := range s.Instances.Instances[:min(len(s.Instances.Instances), maxInstances)] {
		i.Since = cmp.Or(since[i.ID], s.timestamp())
		noted.Instances = append(noted.Instances, i)
	}
	s.Sync.Status.Instances = noted
}

// setInstanceDrift tells of instances that differ, for as long as they do.
func (s *Step) setInstanceDrift() {
	s.setTrouble(v1alpha1.InstanceDriftCondition, v1alpha1.ReasonInstancesDiffer, s.instanceWords())
}

// instanceWords name the instances that differ; empty where none does.
func (s *Step) instanceWords() string {
	drift := s.Sync.Status.Instances
	if drift == nil || drift.Count == 0 {
		return ""
	}
	words := make([]string, 0, len(drift.Instances))
	for _, i := range drift.Instances {
		words = append(words, fmt.Sprintf("%s of %s: %s", i.ID, i.Pool, i.Message))
	}
	return differ(int(drift.Count), "instance") + ": " + finding.Few(words, "; ")
}

// sayInstances has an update about drift tell of instances, where no object and no node drifts.
func (s *Step) sayInstances(u *queue.Update) {
	switch words := s.instanceWords(); {
	case words != "":
		u.State, u.Description = report.Failure, words
	case s.Sync.Status.Instances != nil && s.Sync.Status.Instances.Failure != "":
		u.Description += "; instances unavailable: " + s.Sync.Status.Instances.Failure
	}
}
