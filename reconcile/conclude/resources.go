package conclude

import (
	"cmp"

	"github.com/dustin/go-humanize/english"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
)

// notedResources are what nodes and EC2NodeClasses that are gone have left in AWS, as the status keeps them; nil where
// there is nothing.
func (s *Step) notedResources() *v1alpha1.LeftResources {
	left := s.Instances.Left
	if left == nil {
		return nil
	}
	since := map[string]metav1.Time{}
	if before := s.Before.Status.Instances; before != nil && before.Left != nil {
		for _, r := range before.Left.Resources {
			since[r.Kind+r.ID] = r.Since
		}
	}
	noted := &v1alpha1.LeftResources{Failure: left.Failure, Count: left.Count}
	for _, r := range left.Resources[:min(len(left.Resources), maxInstances)] {
		r.Since = cmp.Or(since[r.Kind+r.ID], s.timestamp())
		noted.Resources = append(noted.Resources, r)
	}
	return noted
}

// unknownLeft says that AWS has not answered a question.
const unknownLeft = "what is left in AWS is not known in whole: "

// setResourcesLeft tells of interfaces, launch templates and instance profiles of what is gone, for as long as they are
// there, and of what AWS denies to say.
func (s *Step) setResourcesLeft() {
	const kind = v1alpha1.ResourcesLeftCondition
	drift := s.Sync.Status.Instances
	switch {
	case drift == nil || drift.Left == nil:
		s.setTrouble(kind, v1alpha1.ReasonResourcesLeft, "")
	case drift.Left.Count == 0:
		s.setUnknown(kind, v1alpha1.ReasonResourcesUnknown, unknownLeft+drift.Left.Failure)
	default:
		words := make([]string, 0, len(drift.Left.Resources))
		for _, r := range drift.Left.Resources {
			words = append(words, r.Message)
		}
		count := english.Plural(int(drift.Left.Count), "resource is", "resources are")
		said := count + " left in AWS by what is gone: " + finding.Few(words, "; ")
		if drift.Left.Failure != "" {
			said += "; " + unknownLeft + drift.Left.Failure
		}
		s.setTrouble(kind, v1alpha1.ReasonResourcesLeft, said)
	}
}
