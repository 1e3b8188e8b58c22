package pulls

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/report"
)

// repository is a repository on a host whose pull requests one NodeSync follows.
type repository struct {
	sync     *v1alpha1.NodeSync
	host     report.Host
	base     string
	comments bool
	forks    bool

	// seeded reports whether the statuses of an earlier daemon were read.
	seeded bool
	// listAt is when the open ones are listed next, and listedAt when they were last; failures counts consecutive
	// failures, and unlisted is the reason.
	listAt, listedAt time.Time
	failures         int
	unlisted         string
	// pulls are the open ones: those that are followed, then those that wait for a place.
	pulls []*pull
	// ours are the comments that were written, by the number of the pull request, as the host has answered to that; of an earlier
	// daemon's only what they are found by is known.
	ours map[int]report.Comment
	// commentAt is when the host's rate limit allows comments again.
	commentAt time.Time
}

// pull is an open pull request.
type pull struct {
	report.PullRequest
	of *repository
	// waits reports whether too many others are followed.
	waits bool
	// word is the status of the head; its State is empty if there is none.
	word report.Word
	page string
	// basis identifies what the plan was made from, at plannedAt.
	basis     string
	plannedAt time.Time
	// since is when a new plan became due, and notBefore when a failed one is retried; tries counts its failures.
	since, notBefore time.Time
	tries            int
	// text is the comment to write, and uncommented why it could not be. refused counts its failures in a row, and commentAt is
	// when it is retried; zero if it need not be.
	text, uncommented string
	refused           int
	commentAt         time.Time
	// written is what was written last, at writtenAt, and restored how often in a row it was the text of before.
	written   string
	writtenAt time.Time
	restored  int
}

const (
	// maxFollowed limits the followed open pull requests of one repository: the newest, with those from forks last. Up to
	// maxFollowed others are reported as waiting, plus those that were reported before.
	maxFollowed = 50
	// listTimeout limits one list.
	listTimeout = 30 * time.Second
	// minInterval is the minimum time between two lists, and minAfterEvent after an event from the host.
	minInterval, minAfterEvent = 10 * time.Second, 2 * time.Second
	// longestBackoff limits how long a failing host is not contacted.
	longestBackoff = 10 * time.Minute
)

// update updates the repository from the NodeSync.
func (r *repository) update(s *v1alpha1.NodeSync, to v1alpha1.Report, host report.Host, poked bool, now time.Time) {
	if r.sync != nil && r.sync.Generation != s.Generation {
		r.listAt, r.failures = now, 0
	}
	r.sync, r.host, r.base = s.DeepCopy(), host, s.Spec.Source.FollowedBranch()
	r.comments, r.forks = to.PullRequests.Comment, to.PullRequests.Forks
	if soon := r.listedAt.Add(minAfterEvent); poked && r.failures == 0 && soon.Before(r.listAt) {
		r.listAt = soon
	}
}

// errNoBranch reports a source without a branch that pull requests could target.
var errNoBranch = errors.New("list the open pull requests: spec.source.git.ref names no branch that they go into: follow a branch, or remove pullRequests from spec.report")

// list lists the open pull requests.
func (f *Follower) list(ctx context.Context, r *repository) {
	listed, more, err := f.requestLists(ctx, r)
	if ctx.Err() != nil {
		return
	}
	now := f.Now()
	r.listedAt = now
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("open pull requests cannot be listed", "nodesync", r.sync.Name, "url", r.host.URL, "why", err.Error())
		r.failed(err, now)
		return
	}
	r.failures, r.unlisted = 0, ""
	if more {
		r.unlisted = fmt.Sprintf("the host has more than %d open pull requests: the newest ones are read, and the others have no plan: close some",
			report.MaxPullRequests)
	}
	r.listAt = now.Add(max(minInterval, r.sync.Spec.Interval.Duration))
	r.settle(listed, now)
}

// requestLists makes the requests.
func (f *Follower) requestLists(ctx context.Context, r *repository) (open []report.PullRequest, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	if err := f.seed(ctx, r); err != nil {
		return nil, false, err
	}
	if r.base == "" {
		return nil, false, errNoBranch
	}
	reviewer, err := f.reviewer(ctx, r)
	if err != nil {
		return nil, false, err
	}
	return reviewer.PullRequests(ctx, r.base)
}

func (f *Follower) reviewer(ctx context.Context, r *repository) (report.Reviewer, error) {
	secret, err := f.secret(ctx, r.sync, r.host.Secret, r.host.URL)
	if err != nil {
		return nil, err
	}
	return f.Hosts.Reviewer(r.host.Provider, r.host.URL, secret.Data, r.comments)
}

// seed reads the statuses of an earlier daemon, which remain until there is another plan.
func (f *Follower) seed(ctx context.Context, r *repository) error {
	if r.seeded {
		return nil
	}
	heads, ours, err := f.Queue.Heads(ctx, r.sync, r.host)
	if err != nil {
		return err
	}
	maps.Copy(r.ours, ours)
	for _, head := range heads {
		r.pulls = append(r.pulls, &pull{PullRequest: report.PullRequest{Head: head.ID}, of: r, word: head.Word})
	}
	r.seeded = true
	return nil
}

// failed records an error and delays the next list.
func (r *repository) failed(err error, now time.Time) {
	r.failures++
	wait := longestBackoff
	if shift := r.failures - 1; shift < 8 {
		wait = min(longestBackoff, minInterval<<shift)
	}
	r.listAt = now.Add(max(wait, report.RateLimitOf(err), minInterval))
	r.unlisted = report.StableMessage(err)
}

// report reports the statuses to all hosts of the NodeSync.
func (f *Follower) report(ctx context.Context, r *repository) {
	heads := report.Heads{Context: contextOf(r.sync), At: f.Now()}
	for at, one := range f.followed {
		if at.NamespacedName != r.name() {
			continue
		}
		if err := f.seed(ctx, one); err != nil {
			return // its existing statuses are unknown, and must not be dropped
		}
		of := report.HostHeads{Host: one.host, Unlisted: one.unlisted, Comments: one.ours}
		for _, p := range one.pulls {
			of.Unlisted = cmp.Or(of.Unlisted, p.uncommented)
			if p.word.State != "" {
				of.Heads = append(of.Heads, report.Head{Commit: p.Head, Word: p.word, Page: p.page})
			}
		}
		heads.Of = append(heads.Of, of)
	}
	slices.SortFunc(heads.Of, func(a, b report.HostHeads) int { return cmp.Compare(a.URL, b.URL) })
	if err := f.StillLeader(ctx); err != nil {
		return
	}
	changed, err := f.Queue.RecordHeads(ctx, r.sync, heads)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "plans of pull requests are reported later", "nodesync", r.sync.Name)
		return
	}
	if changed {
		f.Trouble(r.name())
	}
}
