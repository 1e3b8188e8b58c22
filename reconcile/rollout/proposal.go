package rollout

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/confine"
	"github.com/plumbline-dev/plumbline/internal/shortlist"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render"
)

// revert is what to revert: what revision Bad has changed since revision From.
type revert struct {
	From, Bad string
	// Pools are those that fail because of it, and Why is the message of the first one.
	Pools []string
	Why   string
	// Known is the pull request in the status; nil if there is none.
	Known *v1alpha1.RevertProposal
	// At is when the first one was stopped.
	At metav1.Time
}

// due returns the reverts to propose, and why there is none for a failing pool.
func (l ProposalLook) due() (reverts []*revert, none map[string]string) {
	none = map[string]string{}
	of := map[string]*revert{}
	for i := range l.Pools {
		e := &l.Pools[i]
		if !l.isStopped(e) || isClosed(e.Proposal) {
			continue
		}
		if why := l.whyNotProposed(e); why != "" {
			none[e.Pool] = why
			continue
		}
		r := of[e.Revision]
		if r == nil {
			r = &revert{From: e.From, Bad: e.Revision, Why: e.Message, At: *e.BrakedAt}
			of[e.Revision], reverts = r, append(reverts, r)
		}
		if l.Sync.Status.Rollout != nil && r.From == l.Sync.Status.Rollout.From {
			r.From = e.From // the revision that the rollout started from has failed in this pool, too, if it is another one
		}
		if e.BrakedAt.Before(&r.At) {
			r.At, r.Why = *e.BrakedAt, e.Message
		}
		if e.Proposal != nil && e.Proposal.URL != "" {
			r.Known = e.Proposal
		}
		r.Pools = append(r.Pools, e.Pool)
	}
	return reverts, none
}

// isClosed reports whether a pull request needs no more queries.
func isClosed(p *v1alpha1.RevertProposal) bool { return p != nil && (p.Closed || p.Merged) }

// isStopped reports whether a pool is stopped by failed launches or a failed wave, and that is already recorded in the
// status.
func (l ProposalLook) isStopped(e *v1alpha1.PoolRollout) bool {
	if l.Sync.Spec.Rollout.OnFailure != v1alpha1.RolloutBrakeAndPropose || e.BrakedAt == nil || !hasFailed(e) {
		return false
	}
	return slices.ContainsFunc(l.Recorded, func(was v1alpha1.PoolRollout) bool {
		return was.Pool == e.Pool && was.Reason == e.Reason && was.BrakedAt.Equal(e.BrakedAt)
	})
}

// whyNotProposed returns why nothing can be proposed for a pool; empty if it can.
func (l ProposalLook) whyNotProposed(e *v1alpha1.PoolRollout) string {
	_, can := host(l.Sync)
	switch {
	case e.Revision == "":
		return "no commit made its nodes out of date, so there is none to revert"
	case e.From == "" || e.From == e.Revision:
		return fmt.Sprintf("no revision is recorded before %s: revert or correct it by hand", render.ShortRevision(e.Revision))
	case !can:
		return fmt.Sprintf("revert %s by hand: spec.report of this NodeSync names no host where plumbline can open pull requests (GitHub, GitLab, Gitea, Forgejo)", render.ShortRevision(e.Revision))
	case l.Sync.Spec.Source.FollowedBranch() == "":
		return fmt.Sprintf("revert %s by hand: spec.source.git.ref names no branch that a pull request could target",
			render.ShortRevision(e.Revision))
	}
	return ""
}

// host returns the first report of a NodeSync on a host where pull requests are opened.
func host(sync *v1alpha1.NodeSync) (v1alpha1.Report, bool) {
	i := slices.IndexFunc(sync.Spec.Report, func(r v1alpha1.Report) bool { return report.Proposes(r.Provider) })
	if i < 0 {
		return v1alpha1.Report{}, false
	}
	return sync.Spec.Report[i], true
}

// branchOf returns the branch of a revert. Every daemon gives it the same name, and no two NodeSyncs share one: the
// name of a NodeSync has no underscore.
func branchOf(cluster, name, bad string) string {
	whose := strings.Map(plain, cluster) + "_" + name
	if len(whose) > maxName {
		whose = fmt.Sprintf("%s-%.4x", whose[:maxName], sha256.Sum256([]byte(whose)))
	}
	return fmt.Sprintf("%srevert-%s-%.8s", source.Proposals, whose, render.CommitOf(bad))
}

// maxName is the maximum length of the names in a branch: a host may store each part of it as a file.
const maxName = 180

// plain keeps the characters of a cluster's name that are allowed anywhere in the name of a branch.
func plain(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
		return r
	}
	return '-'
}

// within returns a function that selects the files to revert. What the earlier revision has read is unknown if it no
// longer renders: then files that only it has read are left, and named.
func (p proposal) within(ctx context.Context, from *render.Snapshot) func(name string) bool {
	ctx = confine.For(ctx, "reverts in "+p.Sync.Spec.Source.Address())
	karpenter, err := render.ReadKarpenter(*from, p.Sync.Spec.Path)
	if err != nil {
		return within(p.Sync.Spec.Path, p.Inputs)
	}
	set, err := render.Render(ctx, *from, p.Sync.Spec.Path, karpenter, nil, render.WithConfinement(p.Confine))
	if err != nil {
		return within(p.Sync.Spec.Path, p.Inputs)
	}
	return within(p.Sync.Spec.Path, p.Inputs, set.Inputs)
}

// within returns a function that selects the files of a NodeSync: all below its path, and those outside of it that were
// read.
func within(folder string, read ...render.Inputs) func(name string) bool {
	below := path.Clean(folder)
	return func(name string) bool {
		return below == "." || strings.HasPrefix(name, below+"/") ||
			slices.ContainsFunc(read, func(in render.Inputs) bool {
				_, is := in[name]
				return is
			})
	}
}

// proposal is the work on one pull request.
type proposal struct {
	ProposalLook
	revert revert
	branch string
	push   func(ctx context.Context, r source.Revert) (source.Reverted, error)
}

// exchange is a request to a Git host.
type exchange func(ctx context.Context, to report.Proposer) (*report.Proposed, error)

// make finds the pull request, or pushes its branch and opens it. An open one is ours only if it has the commit that
// would be pushed: the name of its branch is predictable.
func (p proposal) make(ctx context.Context) (v1alpha1.RevertProposal, error) {
	into := p.Sync.Spec.Source.FollowedBranch()
	found, err := p.queryHost(ctx, func(ctx context.Context, to report.Proposer) (*report.Proposed, error) {
		return to.Proposed(ctx, p.branch, into)
	})
	if err != nil || found != nil && found.State != report.ProposedOpen {
		return of(found, ""), err
	}
	if known := p.revert.Known; found != nil && known != nil && known.Commit != "" {
		return of(found, known.Commit), nil
	}
	if err := p.StillLeader(ctx); err != nil {
		return v1alpha1.RevertProposal{}, err
	}
	pushing, cancel := context.WithTimeout(ctx, p.Sync.GetTimeout())
	defer cancel()
	reverted, err := p.push(pushing, source.Revert{
		Branch: p.branch, From: render.CommitOf(p.revert.From), Bad: render.CommitOf(p.revert.Bad),
		Within: p.within, Message: p.message(), At: p.revert.At.Time,
	})
	switch {
	case err != nil && found != nil && errors.As(err, new(*source.BranchError)):
		return v1alpha1.RevertProposal{}, fmt.Errorf("%s is open but does not contain the commit that plumbline would create: review it, then merge or close it: %w", found.URL, err)
	case err != nil:
		return v1alpha1.RevertProposal{}, err
	case reverted.Commit == "":
		return v1alpha1.RevertProposal{Message: fmt.Sprintf("%s has nothing left to revert: the files of the NodeSync match %s",
			into, render.ShortRevision(p.revert.From))}, nil
	case found != nil:
		return of(found, reverted.Commit), nil
	}
	if err := p.StillLeader(ctx); err != nil {
		return v1alpha1.RevertProposal{}, err
	}
	made, err := p.queryHost(ctx, func(ctx context.Context, to report.Proposer) (*report.Proposed, error) {
		return to.Propose(ctx, report.Proposal{Branch: p.branch, Base: into, Title: p.title(), Body: p.body(reverted)})
	})
	return of(made, reverted.Commit), err
}

// of returns the status of a pull request to whose branch plumbline has pushed a commit.
func of(found *report.Proposed, commit string) v1alpha1.RevertProposal {
	if found == nil {
		return v1alpha1.RevertProposal{}
	}
	return v1alpha1.RevertProposal{
		URL: found.URL, Commit: commit, Closed: found.State == report.ProposedClosed, Merged: found.State == report.ProposedMerged,
		Changed: commit != "" && found.Head != "" && found.Head != commit,
	}
}

// queryHost queries the host, with the current Secret.
func (p proposal) queryHost(ctx context.Context, question exchange) (*report.Proposed, error) {
	ctx, cancel := context.WithTimeout(ctx, p.Sync.GetTimeout())
	defer cancel()
	to, _ := host(p.Sync)
	at := report.HostOf(p.Sync, to)
	secret, err := p.Secret(ctx, at.Secret)
	if err != nil {
		return nil, fmt.Errorf("open a pull request: read secret %s, which spec.report names: %w", at.Secret, err)
	}
	if err := p.Grants.Check(secret, grant.Use{NodeSync: p.Sync.Name, Address: at.URL}); err != nil {
		return nil, err
	}
	client, err := p.Hosts.Proposer(at.Provider, at.URL, secret.Data)
	if err != nil {
		return nil, err
	}
	return question(ctx, client)
}

const (
	// maxListed is the maximum number of files and commits that a pull request names.
	maxListed = 50
	// maxCode is the maximum length of one quoted text.
	maxCode = 500
	// maxBody is the maximum length of a pull request's body, in bytes: GitHub allows 65,536 characters.
	maxBody = 60_000
)

// title of the pull request, and of its commit.
func (p proposal) title() string {
	return fmt.Sprintf("Revert %.8s: its nodes do not join the cluster %s", render.CommitOf(p.revert.Bad), redact.Visible(p.Cluster))
}

// message of the commit. It must be the same in each attempt: it identifies a commit that was already pushed.
func (p proposal) message() string {
	return fmt.Sprintf("%s\n\nThis reverts the definitions of NodeSync %s to %s.\n", p.title(), p.Sync.Name, p.revert.From)
}

// body of the pull request, in Markdown.
func (p proposal) body(of source.Reverted) string {
	var b strings.Builder
	fmt.Fprintf(&b, "plumbline has stopped the rollout of %s in the cluster %s, in %s: %s.\n\n",
		code(render.ShortRevision(p.revert.Bad)), code(p.Cluster), pools(p.revert.Pools), code(p.revert.Why))
	fmt.Fprintf(&b, "This reverts the files of NodeSync %s to %s, the revision that was applied before. Once it is merged, the rollout resumes and Karpenter launches nodes from the previous definitions. "+
		"To continue without the revert, close this pull request and push a correction, or run `plumbline resume-rollout %s`.\n\n", code(p.Sync.Name), code(render.ShortRevision(p.revert.From)), p.Sync.Name)
	list(&b, "Files:", of.Files, code)
	list(&b, "**Not reverted**, because these changed files do not belong to this NodeSync:", of.Left, code)
	list(&b, "Commits whose changes to these files are reverted, newest first:", of.Undone, func(c source.Undone) string {
		return fmt.Sprintf("%.8s %s", c.Commit, code(c.Subject))
	})
	if of.More {
		b.WriteString("There may be others, because the history in between is incomplete.\n\n")
	}
	list(&b, "**Changed again since then.** Newer changes to these files are also reverted:", of.Newer, code)
	unsigned := p.unsigned()
	text := b.String()
	if most := maxBody - len(unsigned); len(text) > most {
		text = text[:strings.LastIndexByte(text[:most], '\n')+1] + "\nThe lists are too long for a pull request: see its commit for the rest.\n\n"
	}
	return text + unsigned
}

// unsigned describes what a commit without a signature needs to be applied.
func (p proposal) unsigned() string {
	verify := p.Sync.Spec.Source.Verification()
	switch {
	case verify == nil:
		return ""
	case verify.Mode == v1alpha1.VerifyRange:
		return "**The commit is not signed**, but this NodeSync requires a signature on each new commit: make the same change in a commit signed by a trusted key, or squash this into one.\n"
	}
	return "**The commit is not signed**, but this NodeSync requires a signature: merge it with a commit signed by a trusted key.\n"
}

// list writes the first items of a list; nothing if it is empty.
func list[T any](b *strings.Builder, title string, of []T, write func(T) string) {
	if len(of) == 0 {
		return
	}
	fmt.Fprintf(b, "%s\n\n", title)
	for i, one := range of {
		if i == maxListed {
			fmt.Fprintln(b, shortlist.More("- ", len(of)-i))
			break
		}
		fmt.Fprintf(b, "- %s\n", write(one))
	}
	b.WriteString("\n")
}

func pools(names []string) string {
	var all []string
	for _, name := range names {
		all = append(all, code("NodePool/"+name))
	}
	return strings.Join(all, ", ")
}

// code quotes text from elsewhere, truncated if it is long.
func code(words string) string {
	words = redact.Visible(strings.Join(strings.Fields(words), " "))
	if len(words) > maxCode {
		words = strings.ToValidUTF8(words[:maxCode], "") + "…"
	}
	return report.Code(words)
}

const (
	// proposalSoon is when a reconcile looks for the answer.
	proposalSoon = 2 * time.Second
	// first is how long after a failure it is retried, doubled after each failure up to longest. recheck is how often
	// an open pull request is checked: others may push to its branch.
	first, longest, recheck = 30 * time.Second, 30 * time.Minute, time.Minute
	// maxMessage is the maximum length of a failure's message, in bytes.
	maxMessage = 512
)

// Hosts creates the client of a Git host.
type Hosts interface {
	Proposer(provider, repository string, secret map[string][]byte) (report.Proposer, error)
}

// ProposalTools are what is needed to open a pull request.
type ProposalTools struct {
	// Revert returns a function that pushes a commit to a new branch of the NodeSync's source.
	Revert func() func(ctx context.Context, r source.Revert) (source.Reverted, error)
	Hosts  Hosts
	// Confine builds kustomizations in child processes; nil builds them in this one.
	Confine *confine.Runner
	// Secret reads a Secret of the NodeSync's namespace.
	Secret func(ctx context.Context, name string) (*corev1.Secret, error)
	Grants grant.Policy
	// StillLeader returns an error if the lease is no longer ours.
	StillLeader func(context.Context) error
}

// ProposalLook is what a reconcile knows about its rollout.
type ProposalLook struct {
	ProposalTools
	Sync *v1alpha1.NodeSync
	// Recorded are the pools in the status, and Pools as this reconcile has found them.
	Recorded, Pools []v1alpha1.PoolRollout
	// Cluster is the name of the EKS cluster.
	Cluster string
	// Inputs are the files that the NodeSync is rendered from.
	Inputs render.Inputs
	Now    time.Time
}

// ProposalWorker opens pull requests for one NodeSync in the background, and keeps the last answer. The zero value is
// ready to use.
type ProposalWorker struct {
	mu    sync.Mutex
	known map[string]*proposalState
	// reported is what events have reported for each pool: the status has it with values hidden.
	reported map[string]v1alpha1.RevertProposal
}

// proposalState is the state of one pull request.
type proposalState struct {
	asking bool
	// due is when it is retried after a number of consecutive failures, for that generation of the NodeSync.
	due        time.Time
	failures   int
	generation int64
	// answer is nil before the first one.
	answer *v1alpha1.RevertProposal
}

// See returns the pools with the state of their pull requests. Those that are due are handled in a goroutine that no
// reconcile waits for: a later one has the answer.
func (a *ProposalWorker) See(ctx context.Context, l ProposalLook, found *finding.Findings) []v1alpha1.PoolRollout {
	reverts, none := l.due()
	answers := map[string]*v1alpha1.RevertProposal{}
	for pool, why := range none {
		answers[pool] = &v1alpha1.RevertProposal{Message: why}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	wanted := map[string]*proposalState{}
	for _, r := range reverts {
		branch := branchOf(l.Cluster, l.Sync.Name, r.Bad)
		s := a.begin(ctx, l, r, branch)
		wanted[branch] = s
		for _, pool := range r.Pools {
			answers[pool] = s.answer
		}
		if s.asking {
			found.WakeBy(l.Now.Add(proposalSoon))
		} else if !isClosed(s.answer) {
			found.WakeBy(s.due)
		}
	}
	a.known = wanted
	reported := map[string]v1alpha1.RevertProposal{}
	for i := range l.Pools {
		e := &l.Pools[i]
		switch answer := answers[e.Pool]; {
		case answer != nil:
			was, known := a.reported[e.Pool]
			if !known && e.Proposal != nil {
				was = *e.Proposal
			}
			announce(e.Pool, was, *answer, found)
			e.Proposal, reported[e.Pool] = answer, *answer
		case e.Proposal != nil && e.Proposal.URL == "" && !l.isStopped(e):
			e.Proposal = nil
		}
	}
	a.reported = reported
	return l.Pools
}

// begin starts the work on a pull request if it is due.
func (a *ProposalWorker) begin(ctx context.Context, l ProposalLook, r *revert, branch string) *proposalState {
	s := a.known[branch]
	if s == nil {
		s = &proposalState{}
	}
	if s.generation != l.Sync.Generation && !s.asking {
		s.generation, s.due, s.failures = l.Sync.Generation, l.Now, 0
	}
	if s.answer != nil && s.answer.URL != "" {
		r.Known = s.answer.DeepCopy()
	}
	if !s.asking && !l.Now.Before(s.due) && !isClosed(s.answer) {
		s.asking, s.due = true, l.Now.Add(first)
		l.Sync = l.Sync.DeepCopy() // the reconcile continues with the other one
		go a.work(context.WithoutCancel(ctx), s, proposal{ProposalLook: l, revert: *r, branch: branch, push: l.Revert()})
	}
	return s
}

func (a *ProposalWorker) work(ctx context.Context, s *proposalState, p proposal) {
	answer, err := p.make(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	s.asking = false
	switch known := p.revert.Known; {
	case err != nil && known != nil:
		answer = *known // until the host can be queried again
	case err != nil:
		answer = v1alpha1.RevertProposal{Message: finding.Bounded(err.Error(), maxMessage)}
	}
	answer.Branch = p.branch
	s.answer = &answer
	if err == nil && answer.URL != "" {
		s.failures, s.due = 0, p.Now.Add(recheck)
	} else {
		wait := min(first<<min(s.failures, 10), longest)
		var limited *report.RateLimitedError
		if errors.As(err, &limited) {
			wait = max(wait, limited.RetryAfter)
		}
		s.failures++
		s.due = p.Now.Add(wait)
	}
}

// announce sends an event about the new state of a pull request, once.
func announce(pool string, was, is v1alpha1.RevertProposal, found *finding.Findings) {
	if was == is {
		return
	}
	switch {
	case is.URL != "" && is.Changed:
		found.Warn(v1alpha1.ReasonRevertNotProposed, fmt.Sprintf("NodePool/%s: the branch of %s has a commit other than the revert that plumbline created: review it before you merge it", pool, is.URL))
	case is.URL != "" && is.Merged:
		found.Event(v1alpha1.ReasonRevertProposed, fmt.Sprintf("NodePool/%s: %s, which reverts the failed change, was merged", pool, is.URL))
	case is.URL != "" && is.Closed:
		found.Warn(v1alpha1.ReasonRevertNotProposed,
			fmt.Sprintf("NodePool/%s: the pull request that reverts the failed change was closed and is not reopened: %s", pool, is.URL))
	case is.URL != "":
		found.Event(v1alpha1.ReasonRevertProposed,
			fmt.Sprintf("NodePool/%s: %s reverts the failed change: merge it, or correct the definition", pool, is.URL))
	default:
		found.Warn(v1alpha1.ReasonRevertNotProposed,
			fmt.Sprintf("NodePool/%s: plumbline opened no pull request to revert the failed change: %s", pool, is.Message))
	}
}
