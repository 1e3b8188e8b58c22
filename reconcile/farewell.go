package reconcile

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
func (p *pass) farewell(ctx context.Context) {
	if !p.finished {
		return
	}
	words := "NodeSync deleted; its objects and nodes are left as they are"
	if p.sync.Spec.OnDelete == v1alpha1.OnDeleteDrain {
		words = "NodeSync deleted; none of its nodes is left"
	}
	done, err := p.Reports.Farewell(ctx, p.sync, queue.Farewell{Description: words, Page: p.pageOf, At: p.now})
	if err != nil {
		p.Warn("ReportFailed", fmt.Sprintf("the last commit status: %v", err))
		return
	}
	if done {
		return
	}
	p.finished = false
	p.sync.Finalizers = slices.Clone(p.before.Finalizers)
	p.Notes = slices.DeleteFunc(p.Notes, func(n finding.Note) bool { return n.Reason == reasonDeleted })
	p.Wait("commit statuses", fmt.Sprintf("the Git hosts are told how the deletion ended, for %s at most", queue.FarewellPatience))
	p.WakeBy(p.now.Add(farewellEvery))
}

// reasonDeleted is that of the one event on a deletion that is concluded.
const reasonDeleted = "Deleted"

// pageOf is where a status on a commit links to.
func (p *pass) pageOf(h queue.Host, commit string) string {
	for _, to := range p.sync.Spec.Report {
		if to.Provider == h.Provider && report.Clean(cmp.Or(to.URL, p.sync.Spec.Source.Git.URL)) == h.URL {
			return cmp.Or(to.TargetURL, report.Page(h.Provider, h.URL, commit, p.sync.Spec.Path))
		}
	}
	return ""
}
