package observe_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/event"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/observe"
)

// listener notes what it hears.
type listener struct{ heard []string }

func (l *listener) See(claim *karpv1.NodeClaim) { l.heard = append(l.heard, "see "+claim.Name) }

func (l *listener) Gone(claim *karpv1.NodeClaim, missed bool) {
	how := "gone "
	if missed {
		how = "missed "
	}
	l.heard = append(l.heard, how+claim.Name)
}

func TestTell(t *testing.T) {
	a, b := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
	l := &listener{}
	for _, ends := range []observe.Ends{l, nil} {
		tell := observe.Tell(ends)
		through := tell.Create(event.CreateEvent{Object: a}) && tell.Update(event.UpdateEvent{ObjectOld: a, ObjectNew: b}) &&
			tell.Delete(event.DeleteEvent{Object: a}) && tell.Delete(event.DeleteEvent{Object: b, DeleteStateUnknown: true}) &&
			tell.Create(event.CreateEvent{Object: &corev1.Node{}}) && tell.Delete(event.DeleteEvent{Object: &corev1.Node{}})
		if !through {
			t.Errorf("%v keeps events back", ends)
		}
	}
	if diff := cmp.Diff([]string{"see a", "see b", "gone a", "missed b"}, l.heard); diff != "" {
		t.Errorf("heard (-want +got):\n%s", diff)
	}
}

// TestTrimKeepsWhatSaysWhyItEnds: its own expireAfter, and that it has to end at once.
func TestTrimKeepsWhatSaysWhyItEnds(t *testing.T) {
	full := claim()
	full.Spec.ExpireAfter = karpv1.NillableDuration{Duration: ptr.To(time.Hour), Raw: []byte(`"1h"`)}
	full.Annotations[karpv1.NodeClaimTerminationTimestampAnnotationKey] = "2026-03-01T12:00:00Z"
	trimmed := kept(t, full)
	if after := trimmed.Spec.ExpireAfter.Duration; after == nil || *after != time.Hour {
		t.Errorf("expireAfter is %v", after)
	}
	want := map[string]string{karpv1.NodeClaimTerminationTimestampAnnotationKey: "2026-03-01T12:00:00Z"}
	if diff := cmp.Diff(want, trimmed.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}
