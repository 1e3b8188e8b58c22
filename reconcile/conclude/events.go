package conclude

import (
	"maps"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
)

// tell sends the pass's events, and one for a verdict that nothing else has told.
func (s *Step) tell() {
	for _, n := range s.Notes {
		if n.Reason == v1alpha1.ReasonApplied {
			s.Memory.applied = s.revision()
		}
		s.Events.AnnotatedEventf(s.Sync, s.eventAnnotations(), n.Type, n.Reason, "%s", finding.Bounded(s.Memory.Hide(n.Message), maxEventMessage))
	}
	after, before := conditions.Get(s.Sync, meta.ReadyCondition), conditions.Get(s.Before, meta.ReadyCondition)
	if after == nil || s.superseded() || s.Finished || sameWords(before, after) {
		return
	}
	kind := corev1.EventTypeNormal
	switch {
	case after.Status == metav1.ConditionUnknown:
		return // at work: the status says on what, and each write has its event
	case after.Status == metav1.ConditionFalse:
		kind, s.Memory.applied = corev1.EventTypeWarning, ""
	case s.Memory.applied != "" && s.Memory.applied == s.revision():
		return // as was to be expected of what was applied
	case before != nil && before.Status == metav1.ConditionTrue:
		return // a commit that changed nothing of it
	}
	s.Events.AnnotatedEventf(s.Sync, s.eventAnnotations(), kind, after.Reason, "%s", finding.Bounded(after.Message, maxEventMessage))
}

// sameWords says whether two conditions, of which the first may be missing, say
// the same.
func sameWords(a, b *metav1.Condition) bool {
	return a != nil && a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message
}

// eventAnnotations are what Flux's notification-controller shows beside an event: it takes those with the prefix of
// the object's API group.
func (s *Step) eventAnnotations() map[string]string {
	annotations := map[string]string{v1alpha1.RevisionAnnotation: s.Sync.Status.LastAttemptedRevision, v1alpha1.ClusterAnnotation: s.Cluster}
	maps.DeleteFunc(annotations, func(_, value string) bool { return value == "" })
	if len(annotations) == 0 {
		return nil
	}
	return annotations
}
