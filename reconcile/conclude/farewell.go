package conclude

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/report/queue"
)

// farewellEvery is how often it is looked whether the hosts have the last word.
const farewellEvery = time.Second

// farewell has the Git hosts told how a deletion ended, before the finalizer goes: what
// is queued goes with the NodeSync, and a commit would be pending for ever. It is not
// waited for longer than queue.FarewellPatience, and what fails keeps nobody.
func (s *Step) farewell(ctx context.Context) {
	if !s.Finished {
		return
	}
	words := "NodeSync deleted; its objects and nodes are left as they are"
	if s.Sync.Spec.OnDelete == v1alpha1.OnDeleteDrain {
		words = "NodeSync deleted; none of its nodes is left"
	}
	done, err := s.Reports.Farewell(ctx, s.Sync, queue.Farewell{Description: words, Page: s.pageOf, At: s.Began})
	if err != nil {
		s.Warn(v1alpha1.ReasonReportFailed, fmt.Sprintf("the last commit status: %v", err))
		return
	}
	if done {
		return
	}
	s.Finished = false
	s.Sync.Finalizers = slices.Clone(s.Before.Finalizers)
	s.Notes = slices.DeleteFunc(s.Notes, func(n finding.Note) bool { return n.Reason == v1alpha1.ReasonDeleted })
	s.Wait("commit statuses", fmt.Sprintf("reporting to the Git hosts how the deletion ended, for %s at most", queue.FarewellPatience))
	s.WakeBy(s.Began.Add(farewellEvery))
}

// pageOf is where a status on a commit links to.
func (s *Step) pageOf(h queue.Host, commit string) string {
	for _, to := range s.Sync.Spec.Report {
		if to.Provider == h.Provider && report.Clean(cmp.Or(to.URL, s.Sync.Spec.Source.Repository())) == h.URL {
			return s.linkOf(to, h.URL, commit)
		}
	}
	return ""
}
