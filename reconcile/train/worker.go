package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/robfig/cron/v3"
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline-dev/plumbline/confine"
	"github.com/plumbline-dev/plumbline/provision/images"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

const (
	// every is how often AWS and the Git host are queried.
	every = 10 * time.Minute
	// soon is when a reconcile looks for the answer.
	soon = 2 * time.Second
	// first is how long after a failure it is retried, doubled after each failure up to longest.
	first, longest = 30 * time.Second, 30 * time.Minute
	// maxMessage is the maximum length of a message in the status, in bytes.
	maxMessage = 512
	// maxSteps is how many decisions are carried out in one round: one may close a pull request and open the next.
	maxSteps = 3
)

// Hosts creates the client of a Git host.
type Hosts interface {
	Amender(provider, repository string, secret map[string][]byte) (report.Amender, error)
}

// Git changes branches of the repository of a NodeSync.
type Git interface {
	Change(ctx context.Context, c source.Change) (source.Changed, error)
	DeleteBranch(ctx context.Context, c source.Change, commit string) error
	CheckBranch(ctx context.Context, c source.Change, commit string) error
}

// Tools are the dependencies of a Worker.
type Tools struct {
	// AWS returns the client of the cluster's account and region.
	AWS func(ctx context.Context) (images.PublishedAWS, error)
	// Git returns what changes branches, with the credentials of spec.images.
	Git   func() Git
	Hosts Hosts
	// Confine builds kustomizations in child processes; nil builds them in this one.
	Confine *confine.Runner
	// Secret reads a Secret of the NodeSync's namespace.
	Secret func(ctx context.Context, name string) (*corev1.Secret, error)
	Grants grant.Policy
	// StillLeader returns an error if the lease is no longer ours.
	StillLeader func(context.Context) error
}

// Look is what a reconcile knows.
type Look struct {
	Tools
	Sync    *v1alpha1.NodeSync
	Classes []*awsv1.EC2NodeClass
	// Cluster is the name of the EKS cluster, and Kubernetes its version (1.36); empty if unknown.
	Cluster, Kubernetes string
	// Inputs identify what the NodeSync was rendered from.
	Inputs string
	Now    time.Time
}

// Answer is what a Worker has found.
type Answer struct {
	// Status is nil if nothing is proposed.
	Status *v1alpha1.ImageTrainStatus
	// Outdated are sentences on AMIs that are too old. Known reports that AWS has answered about all of them.
	Outdated []string
	Known    bool
}

// Worker runs the train of one NodeSync in the background, and keeps the last answer. The zero value is ready to use.
type Worker struct {
	mu     sync.Mutex
	asking bool
	// due is when the next round begins, after a number of consecutive failures; key identifies what it depends on.
	due      time.Time
	failures int
	key      string
	// answer is nil before the first one, and failed is why the last round failed.
	answer *Answer
	failed string
	// settled identifies the commit that was last found in its branch, and what it was made from.
	settled string
	notes   []finding.Note
}

// See returns the last answer, and starts a round if one is due. No reconcile waits for it: a later one has the answer.
func (w *Worker) See(ctx context.Context, l Look, found *finding.Findings) Answer {
	w.mu.Lock()
	defer w.mu.Unlock()
	train := l.Sync.Spec.Images
	if train == nil || !train.Propose && train.MaxAge == "" {
		if !w.asking {
			w.answer, w.key, w.due, w.failures, w.failed = nil, "", time.Time{}, 0, ""
		}
		return Answer{Known: true}
	}
	if l.Kubernetes == "" {
		return w.last(l)
	}
	key := fmt.Sprint(l.Sync.Generation, l.Sync.Status.LastHandledReconcileAt, l.Inputs, l.Kubernetes, l.Cluster)
	if key != w.key && !w.asking {
		w.key, w.due, w.failures = key, l.Now, 0
	}
	if !w.asking && !l.Now.Before(w.due) {
		w.asking, w.due = true, l.Now.Add(every)
		l.Sync = l.Sync.DeepCopy() // the reconcile continues with the other one
		go w.work(context.WithoutCancel(ctx), &round{Look: l, git: l.Git(), settled: w.settled})
	}
	if w.asking {
		found.WakeBy(l.Now.Add(soon))
	} else {
		found.WakeBy(w.due)
	}
	found.Notes = append(found.Notes, w.notes...)
	w.notes = nil
	return w.last(l)
}

// last returns the last answer, or before the first one what is in the status.
func (w *Worker) last(l Look) Answer {
	if w.answer == nil {
		return Answer{Status: l.Sync.Status.Images}
	}
	a := *w.answer
	a.Status = a.Status.DeepCopy()
	return a
}

// work runs one round.
func (w *Worker) work(ctx context.Context, r *round) {
	l := &r.Look
	ctx, cancel := context.WithTimeout(ctx, max(every, 2*l.Sync.GetTimeout()))
	defer cancel()
	answer, err := r.run(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asking, w.settled = false, r.settled
	if answer.Status == nil && err != nil {
		answer.Status = l.Sync.Status.Images.DeepCopy()
	}
	if err != nil {
		if answer.Status == nil {
			answer.Status = &v1alpha1.ImageTrainStatus{}
		}
		answer.Status.Message = finding.Bounded(err.Error(), maxMessage)
		if answer.Status.Message != w.failed {
			r.note(corev1.EventTypeWarning, v1alpha1.ReasonImagesNotProposed, "newer AMIs could not be proposed: "+answer.Status.Message)
		}
		w.failed = answer.Status.Message
		wait := min(first<<min(w.failures, 10), longest)
		var limited *report.RateLimitedError
		if errors.As(err, &limited) {
			wait = max(wait, limited.RetryAfter)
		}
		w.failures, w.due = w.failures+1, l.Now.Add(wait)
	} else {
		w.failures, w.failed, w.due = 0, "", l.Now.Add(every)
		if !r.again.IsZero() && r.again.Before(w.due) && r.again.After(l.Now) {
			w.due = r.again
		}
	}
	w.answer, w.notes = &answer, append(w.notes, r.notes...)
}

// round is one round of a train.
type round struct {
	Look
	git   Git
	names Names
	base  string
	notes []finding.Note
	again time.Time
	// settled is as in Worker.
	settled string
}

func (r *round) note(kind, reason, message string) {
	r.notes = append(r.notes, finding.Note{Type: kind, Reason: reason, Message: message})
}

// run reads, decides, and carries out the decision.
func (r *round) run(ctx context.Context) (Answer, error) {
	train := r.Sync.Spec.Images
	spec, err := specOf(train)
	if err != nil {
		return Answer{}, err
	}
	aws, err := r.AWS(ctx)
	if err != nil {
		return Answer{}, fmt.Errorf("query AWS about AMIs: %w", err)
	}
	reading := reading{aws: aws, kubernetes: r.Kubernetes, now: r.Now}
	want := reading.wanted(ctx, spec, reading.aliases(ctx, r.Classes))
	r.again = want.Again
	answer := Answer{Outdated: want.Outdated, Known: len(want.Unknown) == 0}
	if !train.Propose {
		return answer, nil
	}
	r.names, r.base = NamesOf(r.Cluster, r.Sync.Name, train.Group), r.Sync.Spec.Source.FollowedBranch()
	if r.base == "" {
		return answer, errors.New("spec.source.git.ref names no branch that a pull request could go into: follow a branch, or remove spec.images.propose")
	}
	answer.Status, err = r.propose(ctx, want)
	return answer, err
}

// specOf parses spec.images.
func specOf(train *v1alpha1.ImageTrain) (spec Spec, err error) {
	if spec.MinAge, err = train.GetMinAge(); err != nil {
		return spec, err
	}
	if spec.MaxAge, err = train.GetMaxAge(); err != nil {
		return spec, err
	}
	if train.Schedule == "" {
		return spec, nil
	}
	if spec.Schedule, err = cron.ParseStandard("TZ=UTC " + train.Schedule); err != nil {
		return spec, fmt.Errorf("spec.images.schedule %q: %w: write it as cron does, such as 0 9 * * mon", train.Schedule, err)
	}
	return spec, nil
}

// propose brings the pull requests on the host to what there should be.
func (r *round) propose(ctx context.Context, want Want) (*v1alpha1.ImageTrainStatus, error) {
	host, err := r.host(ctx)
	if err != nil {
		return nil, err
	}
	for range maxSteps {
		open, err := host.Opened(ctx, r.base, r.names.Prefix())
		if err != nil {
			return nil, err
		}
		earlier, err := r.earlier(ctx, host, want, open)
		if err != nil {
			return nil, err
		}
		d := Decide(r.names, want, openedOf(open), earlier)
		switch d.Action {
		case Nothing:
			return r.waiting(d), nil
		case Close:
			err := r.close(ctx, host, d, open)
			if errors.As(err, new(*source.BranchError)) {
				return r.ofAPerson(d, "closed"), nil
			}
			if err != nil {
				return nil, err
			}
			continue
		case Open, Rebase:
			if status := r.Sync.Status.Images; d.Action == Rebase && r.isSettled(d, open) {
				return status.DeepCopy(), nil
			}
			return r.push(ctx, host, d)
		}
	}
	return nil, errors.New("the Git host still lists pull requests that plumbline has closed: it is queried again later")
}

// waiting returns the status if nothing is done.
func (r *round) waiting(d Decision) *v1alpha1.ImageTrainStatus {
	status := &v1alpha1.ImageTrainStatus{Message: finding.Bounded(d.Why, maxMessage)}
	if d.Of != nil && r.names.owns(d.Of.Branch) {
		status.Branch, status.URL = d.Of.Branch, d.Of.URL
		if before := r.Sync.Status.Images; before != nil && before.Branch == d.Of.Branch {
			status.Commit, status.Aliases = before.Commit, before.Aliases
		}
	}
	return status
}

func openedOf(all []report.Proposed) (open []Opened) {
	for _, p := range all {
		open = append(open, Opened{Number: p.Number, Branch: p.Branch, URL: p.URL, Title: p.Title})
	}
	return open
}

// earlier looks up what happened to pull requests of the proposals that are not open.
func (r *round) earlier(ctx context.Context, host report.Amender, want Want, open []report.Proposed) (map[string]Earlier, error) {
	found := map[string]Earlier{}
	for _, p := range want.Proposals {
		branch := r.names.Branch(p)
		if slices.ContainsFunc(open, func(o report.Proposed) bool { return o.Branch == branch }) {
			continue
		}
		last, err := host.Proposed(ctx, branch, r.base)
		if err != nil {
			return nil, err
		}
		switch {
		case last == nil || last.State == report.ProposedOpen || strings.Contains(last.Title, closedBy):
		case last.State == report.ProposedMerged:
			found[branch] = EarlierMerged
		default:
			found[branch] = EarlierClosed
		}
	}
	return found, nil
}

// close closes a pull request, and deletes its branch if that has only plumbline's commit.
func (r *round) close(ctx context.Context, host report.Amender, d Decision, open []report.Proposed) error {
	i := slices.IndexFunc(open, func(o report.Proposed) bool { return o.Number == d.Of.Number })
	head := open[i].Head
	if head != "" {
		err := r.git.CheckBranch(ctx, r.change(d.Of.Branch, Proposal{}), head)
		if err != nil && !errors.As(err, new(*source.NotFoundError)) { // without a branch there is no commit of a person
			return err
		}
	}
	if err := r.StillLeader(ctx); err != nil {
		return err
	}
	if err := host.Amend(ctx, d.Of.Number, report.Amendment{Title: closedTitle(d.Of.Title, d.Why), Close: true}); err != nil {
		return fmt.Errorf("close %s: %w", d.Of.URL, err)
	}
	r.note(corev1.EventTypeNormal, v1alpha1.ReasonImagesProposed, fmt.Sprintf("%s was closed: %s", d.Of.URL, d.Why))
	if head != "" {
		err := r.git.DeleteBranch(ctx, r.change(d.Of.Branch, Proposal{}), head)
		if err != nil && !errors.As(err, new(*source.BranchError)) { // the commit of a person stays
			r.note(corev1.EventTypeWarning, v1alpha1.ReasonImagesNotProposed, finding.Bounded("delete branch "+d.Of.Branch+": "+err.Error(), maxMessage))
		}
	}
	return nil
}

// isSettled reports whether the branch of an open pull request still has the commit of the last round, and neither the
// proposal nor a file of the NodeSync has changed since.
func (r *round) isSettled(d Decision, open []report.Proposed) bool {
	status := r.Sync.Status.Images
	i := slices.IndexFunc(open, func(o report.Proposed) bool { return o.Number == d.Of.Number })
	return status != nil && status.Message == "" && status.URL == d.Of.URL && status.Commit != "" && open[i].Head == status.Commit &&
		r.settled == r.settles(d, status.Commit)
}

// settles identifies a commit of a proposal, and what it was made from.
func (r *round) settles(d Decision, commit string) string {
	return commit + " " + r.Inputs + " " + message(d.Proposal, r.Sync.Name, r.Cluster)
}

// ofAPerson returns the status while a person has pushed to the branch of an open pull request: it is theirs now.
func (r *round) ofAPerson(d Decision, not string) *v1alpha1.ImageTrainStatus {
	return &v1alpha1.ImageTrainStatus{Branch: d.Of.Branch, URL: d.Of.URL, Message: fmt.Sprintf(
		"the branch of %s has a commit that is not plumbline's, so it is not %s: review it, then merge or close it", d.Of.URL, not)}
}

// push pushes the branch, and opens or updates the pull request.
func (r *round) push(ctx context.Context, host report.Amender, d Decision) (*v1alpha1.ImageTrainStatus, error) {
	if err := r.StillLeader(ctx); err != nil {
		return nil, err
	}
	branch, title := r.names.Branch(d.Proposal), titleOf(d.Proposal, r.Cluster)
	done, err := r.git.Change(ctx, r.change(branch, d.Proposal))
	if err != nil && d.Of != nil && errors.As(err, new(*source.BranchError)) {
		return r.ofAPerson(d, "rebased"), nil
	}
	if err != nil {
		return nil, err
	}
	if done.Commit == "" {
		return &v1alpha1.ImageTrainStatus{Message: "branch " + r.base + " already selects " + d.Proposal.title()}, nil
	}
	status := &v1alpha1.ImageTrainStatus{Branch: branch, Commit: done.Commit, Aliases: aliasesOf(d.Proposal)}
	if err := r.StillLeader(ctx); err != nil {
		return status, err
	}
	r.settled = r.settles(d, done.Commit)
	body := bodyOf(d.Proposal, r.Sync, r.Cluster, done.Files, r.Now)
	if d.Of != nil {
		status.URL = d.Of.URL
		if done.Pushed {
			r.note(corev1.EventTypeNormal, v1alpha1.ReasonImagesProposed, fmt.Sprintf("%s was rebased: %s", d.Of.URL, title))
		}
		if done.Pushed || d.Of.Title != title {
			return status, host.Amend(ctx, d.Of.Number, report.Amendment{Title: title, Body: body})
		}
		return status, nil
	}
	made, err := host.Propose(ctx, report.Proposal{Branch: branch, Base: r.base, Title: title, Body: body})
	if err != nil {
		return status, err
	}
	status.URL = made.URL
	r.note(corev1.EventTypeNormal, v1alpha1.ReasonImagesProposed, fmt.Sprintf("%s: %s", made.URL, title))
	r.again = r.Now.Add(soon) // another train of the group may have opened one at the same time
	return status, nil
}

// edits returns a function that replaces aliases in the files of the NodeSync.
func (r *round) edits(changes []render.AliasChange) func(context.Context, *render.Snapshot) (map[string][]byte, error) {
	return func(ctx context.Context, at *render.Snapshot) (map[string][]byte, error) {
		ctx = confine.For(ctx, "image trains of "+r.Sync.Spec.Source.Address())
		return render.SetAliases(ctx, *at, r.Sync.Spec.Path, changes, render.WithConfinement(r.Confine))
	}
}

// change returns the commit of a proposal.
func (r *round) change(branch string, p Proposal) source.Change {
	return source.Change{
		Branch: branch, Message: message(p, r.Sync.Name, r.Cluster), At: r.Now,
		Edit: r.edits(changesOf(p)),
		Earlier: func(ctx context.Context, at *render.Snapshot, message string) (map[string][]byte, error) {
			return r.edits(changesIn(message))(ctx, at)
		},
	}
}

// host returns the client of the Git host. The Secret of spec.images is used for it if it has a token.
func (r *round) host(ctx context.Context) (report.Amender, error) {
	i := slices.IndexFunc(r.Sync.Spec.Report, func(one v1alpha1.Report) bool { return report.Proposes(one.Provider) })
	if i < 0 {
		return nil, errors.New("spec.report names no host where plumbline can open pull requests (GitHub, GitLab, Gitea, Forgejo)")
	}
	at := report.HostOf(r.Sync, r.Sync.Spec.Report[i])
	names := []string{at.Secret}
	if ref := r.Sync.Spec.Images.SecretRef; ref != nil {
		names = []string{ref.Name, at.Secret}
	}
	for _, name := range names {
		secret, err := r.Secret(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("open a pull request: read secret %s: %w", name, err)
		}
		if name != at.Secret && len(cmp.Or(string(secret.Data["token"]), string(secret.Data["githubAppID"]))) == 0 {
			continue // it only pushes
		}
		if err := r.Grants.Check(secret, grant.Use{NodeSync: r.Sync.Name, Address: at.URL}); err != nil {
			return nil, err
		}
		return r.Hosts.Amender(at.Provider, at.URL, secret.Data)
	}
	return nil, nil // the last Secret is that of the report
}
