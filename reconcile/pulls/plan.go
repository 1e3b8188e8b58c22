package pulls

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/plumbline-dev/plumbline/confine"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/fetch"
	"github.com/plumbline-dev/plumbline/reconcile/promotion"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/review"
	"github.com/plumbline-dev/plumbline/reconcile/simulate"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render"
)

const (
	// planTimeout limits one plan, including the fetch.
	planTimeout = 2 * time.Minute
	// orderTimeout limits the check whether a head contains a revision.
	orderTimeout = 15 * time.Second
)

// planned is the plan of a pull request.
type planned struct {
	of *pull
	// head and basis are what it was made from.
	head, basis string
	review      review.Review
	// err is a temporary error.
	err error
}

// plan makes one plan. It changes nothing of the pull request.
func (f *Follower) plan(ctx context.Context, p *pull) planned {
	made := planned{of: p, head: p.Head, basis: basisOf(p)}
	whole, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	if made.review, made.err = f.review(whole, p); whole.Err() != nil {
		made.review, made.err = review.Refused(fmt.Errorf("planning takes longer than %s", planTimeout), redact.Redactor{}), nil
	}
	return made
}

// planFork makes the plan of a pull request from a fork beside the turns, of which one at a time is made: forks may take
// long, and must not delay the repository's own. It reads a copy, because turns update the pull request meanwhile.
func (f *Follower) planFork(ctx context.Context, p *pull) {
	now, of := *p, *p.of
	now.of, f.planningFork = &of, true
	f.begin(func() {
		made := f.plan(ctx, &now)
		made.of = p
		f.forkPlanned <- made
	})
}

// concludeFork reports the plan of a pull request from a fork, if it is still open with the same head.
func (f *Follower) concludeFork(ctx context.Context, made planned) {
	f.planningFork = false
	p := made.of
	followed := slices.Contains(slices.Collect(maps.Values(f.followed)), p.of) && slices.Contains(p.of.pulls, p)
	if followed && !p.waits && p.Head == made.head {
		f.conclude(ctx, made)
	}
}

// conclude reports a plan.
func (f *Follower) conclude(ctx context.Context, made planned) {
	if ctx.Err() != nil {
		return
	}
	f.record(ctx, made)
	f.report(ctx, made.of.of)
	f.comment(ctx, made.of)
}

// record records the status of a pull request. After a temporary error the plan is retried later.
func (f *Follower) record(ctx context.Context, plan planned) {
	p, made, now := plan.of, plan.review, f.Now()
	if plan.err != nil {
		ctrl.LoggerFrom(ctx).Info("a pull request is planned later", "nodesync", p.of.sync.Name, "pull", p.Number, "why", plan.err.Error())
		p.tries++
		p.notBefore = now.Add(min(renewAfter, minInterval<<min(p.tries, 6)))
		p.of.listAt = now.Add(minInterval) // it may be closed, or have another head
		return
	}
	p.basis, p.plannedAt, p.since, p.notBefore, p.tries = plan.basis, now, now, time.Time{}, 0
	p.word = report.Word{State: made.State, Description: made.Line}
	p.page = report.Page(p.of.host.Provider, p.of.host.URL, p.Head, p.of.sync.Spec.Path)
	p.text = ""
	if p.of.comments {
		p.text = made.Markdown(p.title(), report.MarkupOf(p.of.host.Provider))
	} else {
		p.uncommented = ""
	}
}

// title returns what the comment is about.
func (p *pull) title() review.Title {
	s := p.of.sync
	return review.Title{NodeSync: s.Name, Namespace: s.Namespace, Path: s.Spec.Path, Cluster: s.Status.Karpenter.Cluster, Commit: p.Head}
}

// review fetches the head and makes the plan. An error does not concern the commit.
func (f *Follower) review(ctx context.Context, p *pull) (review.Review, error) {
	s := p.of.sync
	request := source.Request{Key: fmt.Sprintf("pull/%s/%s/%d", s.Namespace, s.Name, p.Number), URL: s.Spec.Source.Git.URL}
	if request.Ref.Name = p.Ref; p.Ref == "" {
		request.Ref.Commit = p.Head
	}
	if ref := s.Spec.Source.Git.SecretRef; ref != nil {
		secret, err := f.secret(ctx, s, ref.Name, s.Spec.Source.Git.URL)
		if err != nil {
			return review.Review{}, err
		}
		if request.Credentials, err = source.CredentialsFromSecret(secret.Data); err != nil {
			return review.Review{}, err
		}
	}
	hidden := redact.Credentials(request.Credentials.Secrets()...)
	defer func() { _ = f.Source.Forget(request.Key) }() // leftovers are removed at the next start
	snapshot, _, err := f.Source.Fetch(ctx, request)
	switch {
	case err != nil:
		return refusedOr(err, hidden)
	case snapshot.Commit != p.Head:
		return review.Review{}, errors.New("the head has changed meanwhile")
	}
	behind, lacks := f.behind(ctx, p, request), f.missingCommit(ctx, p, request)
	tools := f.Preview
	if p.Fork {
		const why = "AWS is not asked for a pull request from a fork"
		tools.Ask, tools.NotAsked, tools.InstanceTypes = nil, why, simulate.NotAsked(why)
		tools.Grant, tools.Next = nil, nil
	}
	ctx = confine.For(ctx, p.owner())
	step := &review.Step{
		Tools: tools, Sync: s, Snapshot: snapshot, Now: f.Now(), Withheld: p.Fork,
		HideValues:     func(values []string) { hidden = hidden.And(redact.Values(values...)) },
		HideCredential: func(password string) { hidden = hidden.And(redact.Credentials(password)) },
	}
	seen, err := f.make(step, ctx)
	if err != nil {
		return refusedOr(err, hidden)
	}
	if passing(seen.Stopped) {
		return review.Review{}, hidden.Error(seen.Stopped)
	}
	if !behind && seen.Set != nil && seen.Set.Fingerprint() == s.Status.LastAppliedInputs {
		lacks = "" // it includes the applied state and does not change it; neither does a merge
	}
	return review.Of(review.Input{
		Preview: seen, Branch: p.Base, Behind: behind, Lacks: lacks, Way: f.way(ctx, p, seen), Hide: hidden, Now: f.Now(),
	}), nil
}

// way describes how the commit would go over the rings; empty if there are none, or if that is unknown. Pull requests from
// forks do not show it.
func (f *Follower) way(ctx context.Context, p *pull, seen *review.Preview) string {
	s := p.of.sync
	if s.Spec.Promotion == nil || p.Fork || seen.Plan == nil || seen.Stopped != nil {
		return ""
	}
	rings, records, err := fetch.Fleet(f.Source, s, f.Now())
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("a plan does not show the way over the rings", "nodesync", s.Name, "pull", p.Number, "why", err.Error())
	}
	if rings == nil {
		return ""
	}
	effect := promotion.EffectOf(seen.Plan, seen.Live, s.Status.Karpenter, seen.Karpenter)
	floor := promotion.Floor{Ring: s.Spec.Promotion.Ring, MinSoak: s.Spec.Promotion.GetMinSoak()}
	return promotion.WayOf(rings, records, nil, "", effect, floor, f.Now()).Words(f.Now())
}

// owner is the owner of child processes that plan it. Forks have a separate one, so that slow work for them does not
// delay the repository's own.
func (p *pull) owner() string {
	of := "pull requests"
	if p.Fork {
		of = "pull requests from forks"
	}
	return of + " of " + p.of.sync.Spec.Source.Git.URL
}

// refusedOr returns a Review for an error of the commit; any other error is returned and not reported.
func refusedOr(err error, hidden redact.Redactor) (review.Review, error) {
	var gone *source.NotFoundError
	if passing(err) || errors.As(err, &gone) || source.Lost(err) || review.OutOfReach(err) {
		return review.Review{}, hidden.Error(err)
	}
	return review.Refused(err, hidden), nil
}

// passing reports whether an error is temporary.
func passing(err error) bool {
	if err == nil {
		return false
	}
	class := fault.Classify(err).Class
	return class == fault.Transient || class == fault.Superseded
}

// behind reports whether the branch has an applied commit that is not in the head.
func (f *Follower) behind(ctx context.Context, p *pull, request source.Request) bool {
	return f.isMissing(ctx, request, p.of.sync.Status.LastAppliedRevision)
}

// missingCommit returns the newest commit of the branch if that is not fully applied and not in the head: a merge would
// apply both, for example because the head approves it.
func (f *Follower) missingCommit(ctx context.Context, p *pull, request source.Request) string {
	if waiting := outstanding(p.of.sync); waiting != "" && f.isMissing(ctx, request, waiting) {
		return report.ShortCommit(render.CommitOf(waiting))
	}
	return ""
}

// outstanding returns the newest revision of a NodeSync's branch if that is not fully applied.
func outstanding(s *v1alpha1.NodeSync) string {
	if s.Status.LastAttemptedRevision == s.Status.LastAppliedRevision {
		return ""
	}
	return s.Status.LastAttemptedRevision
}

// isMissing reports whether the last fetched head does not contain a revision. It is also true if the available history
// does not show it, as for an older revision (docs/decisions/0003).
func (f *Follower) isMissing(ctx context.Context, request source.Request, revision string) bool {
	ctx, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	order, err := f.Source.FindOrder(ctx, request, render.CommitOf(revision))
	if errors.As(err, new(*source.HistoryError)) {
		return true
	}
	return err == nil && order != source.OrderNewer
}
