package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/report/queue"
)

// Reports keeps what the Git hosts are to be told until they have been. It
// speaks to no host while a pass waits.
type Reports interface {
	// Head is the commit that was spoken of last.
	Head(ctx context.Context, sync *v1alpha1.NodeSync) (string, error)
	// Say notes a verdict; it stands in the cluster when Say returns.
	Say(ctx context.Context, sync *v1alpha1.NodeSync, s queue.Saying) error
	// Reported is what was said last, and what the hosts are in trouble with.
	Reported(sync *v1alpha1.NodeSync) (list []v1alpha1.Reported, known bool)
	// Farewell notes the last word on a NodeSync that is being deleted, and says whether
	// there is nothing more to wait for.
	Farewell(ctx context.Context, sync *v1alpha1.NodeSync, f queue.Farewell) (done bool, err error)
	// Forget drops what is held of a NodeSync that is gone.
	Forget(name types.NamespacedName)
}

// report has the verdict told as a commit status. What fails there never fails
// the pass: an event and the status say why.
func (p *pass) report(ctx context.Context) {
	if err := p.say(ctx); err != nil {
		p.Warn("ReportFailed", fmt.Sprintf("commit status: %v", err))
		p.WakeBy(p.now.Add(p.retryInterval()))
	}
	p.noteReported()
}

func (p *pass) say(ctx context.Context) error {
	if p.snapshot == nil || p.snapshot.Commit == "" || p.suspended || p.elsewhere || p.superseded() {
		return nil
	}
	if p.saysNothingOfTheCommit() {
		return nil
	}
	if len(p.sync.Spec.Report) == 0 && len(p.sync.Status.Reported) == 0 {
		return nil // nobody has ever been told
	}
	head, err := p.Reports.Head(ctx, p.sync)
	if err != nil {
		return err
	}
	v := p.verdict()
	s := queue.Saying{
		Hosts:       p.hosts(),
		Context:     p.statusContext(),
		Fallback:    p.contextIn(p.sync.Namespace),
		Head:        p.snapshot.Commit,
		State:       v.commitState(),
		Description: v.commitText(),
		Retry:       p.sync.Status.LastHandledReconcileAt != p.before.Status.LastHandledReconcileAt,
		At:          p.now,
	}
	if head != p.snapshot.Commit {
		s.Commits = p.changing(ctx)
	}
	return p.Reports.Say(ctx, p.sync, s)
}

// saysNothingOfTheCommit says whether the pass came to no end for a Git host that
// cannot be reached, or an API server that is busy or away. What was told of the
// commit stands: a failure would be a final word.
func (p *pass) saysNothingOfTheCommit() bool {
	for _, err := range []error{p.unfetched, p.unverified} {
		if f := fault.Classify(err); f != nil && f.Class == fault.Transient {
			return true
		}
	}
	return slices.ContainsFunc([]*fault.Error{p.fault, fault.Classify(p.unwritten)}, func(f *fault.Error) bool {
		return f != nil && (f.Reason == v1alpha1.ReasonAPIServerBusy || f.Reason == v1alpha1.ReasonAPIServerAway)
	})
}

// hosts are those that are to be told, each with the page that a status links to.
func (p *pass) hosts() []queue.Target {
	var hosts []queue.Target
	for _, to := range p.sync.Spec.Report {
		repository := report.Clean(cmp.Or(to.URL, p.sync.Spec.Source.Git.URL))
		hosts = append(hosts, queue.Target{
			Host: queue.Host{Provider: to.Provider, URL: repository, Secret: to.SecretRef.Name},
			Page: cmp.Or(to.TargetURL, report.Page(to.Provider, repository, p.snapshot.Commit, p.sync.Spec.Path)),
		})
	}
	return hosts
}

// statusContext is plumbline/<cluster>/<name>, so that clusters on one
// repository never overwrite each other. Empty while the cluster's name is not
// known.
func (p *pass) statusContext() string {
	cluster, _ := p.clusterName()
	if cluster == "" {
		return ""
	}
	return p.contextIn(cluster)
}

func (p *pass) contextIn(cluster string) string { return "plumbline/" + cluster + "/" + p.sync.Name }

// noteReported shows in the status what was told, and tells of trouble that is
// new.
func (p *pass) noteReported() {
	list, known := p.Reports.Reported(p.sync)
	if !known {
		return
	}
	for _, r := range list {
		told := slices.ContainsFunc(p.before.Status.Reported, func(before v1alpha1.Reported) bool {
			return before.Provider == r.Provider && before.URL == r.URL && before.Failure == r.Failure
		})
		if r.Failure != "" && !told {
			p.Warn("ReportFailed", r.Failure)
		}
	}
	p.sync.Status.Reported = list
}
