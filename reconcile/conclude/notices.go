package conclude

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/notify"
)

// Notices notifies the receivers of a NodeSync, and keeps no pass waiting.
type Notices interface {
	Send(ctx context.Context, to []v1alpha1.Notify, notices []notify.Notice)
	// Failed is what was not sent since it was asked last.
	Failed(sync types.NamespacedName) []string
}

// noteNotices records in the status what is to be notified, and reports what was not sent.
func (s *Step) noteNotices() []notify.Notice {
	if s.Elsewhere {
		return nil // its Secrets must not be read
	}
	for _, failed := range s.Notices.Failed(s.name()) {
		s.Warn(v1alpha1.ReasonNotifyFailed, failed)
	}
	record, notices := notify.Next(s.Before, s.Sync, s.Cluster, s.timestamp())
	s.Sync.Status.Notified = record
	return notices
}

// notify sends them once the status stands in the cluster that records them: where it does not, the
// next pass finds the same change.
func (s *Step) notify(ctx context.Context, notices []notify.Notice) {
	if len(notices) > 0 && equality.Semantic.DeepEqual(s.stored().Status, s.Sync.Status) {
		s.Notices.Send(ctx, s.Sync.Spec.Notify, notices)
	}
}
