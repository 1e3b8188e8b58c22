package fetch

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

// artifact is the newest one of a source of Flux, with those before it that the status knows. Which of two is older
// only the times tell at which Flux has made them, and another process has read these.
func (s *Step) artifact(ctx context.Context, ref v1alpha1.SourceRef) (*source.Artifact, error) {
	a, err := s.Source.Artifact(ctx, s.name(), ref)
	if err != nil {
		return a, err
	}
	a.Before = map[string]time.Time{}
	status := &s.Sync.Status
	known := []v1alpha1.Artifact{{Revision: a.Revision, Updated: metav1.NewTime(a.Updated)}}
	for _, one := range status.Artifacts {
		a.Before[render.CommitOf(one.Revision)] = one.Updated.Time
		withheld := status.Withheld != nil && one.Revision == status.Withheld.From
		if one.Revision != a.Revision && (withheld || one.Revision == status.LastAppliedRevision || one.Revision == status.PartlyAppliedRevision) {
			known = append(known, one)
		}
	}
	status.Artifacts = known
	return a, nil
}
