package conclude

import (
	"cmp"

	"github.com/dustin/go-humanize/english"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
)

// notedVolumes are those that nodes which are gone have left attached, as the status keeps them;
// nil where there is none.
func (s *Step) notedVolumes() *v1alpha1.LeftVolumes {
	left := s.Instances.Volumes
	if left == nil {
		return nil
	}
	since := map[string]metav1.Time{}
	if before := s.Before.Status.Instances; before != nil && before.Volumes != nil {
		for _, v := range before.Volumes.Volumes {
			since[v.Name] = v.Since
		}
	}
	noted := &v1alpha1.LeftVolumes{Failure: left.Failure, Count: left.Count}
	for _, v := range left.Volumes[:min(len(left.Volumes), maxInstances)] {
		v.Since = cmp.Or(since[v.Name], s.timestamp())
		noted.Volumes = append(noted.Volumes, v)
	}
	return noted
}

// setVolumesLeft tells of volumes that are attached to nodes or instances that are gone, for as
// long as they are.
func (s *Step) setVolumesLeft() {
	drift := s.Sync.Status.Instances
	if drift == nil || drift.Volumes == nil || drift.Volumes.Count == 0 {
		s.setTrouble(v1alpha1.VolumesLeftCondition, v1alpha1.ReasonVolumesLeft, "")
		return
	}
	words := make([]string, 0, len(drift.Volumes.Volumes))
	for _, v := range drift.Volumes.Volumes {
		words = append(words, v.Message)
	}
	count := english.Plural(int(drift.Volumes.Count), "volume is", "volumes are")
	s.setTrouble(v1alpha1.VolumesLeftCondition, v1alpha1.ReasonVolumesLeft, count+" still attached to what is gone: "+finding.Few(words, "; "))
}
