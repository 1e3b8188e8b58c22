package propose

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline-dev/plumbline/confine"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/grant"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

const (
	// soon is when a pass looks for the answer.
	soon = 2 * time.Second
	// first is how long after a failure it is tried again, twice as long after each, and longest
	// the most. recheck is how often an open pull request is looked at: others may push to its branch.
	first, longest, recheck = 30 * time.Second, 30 * time.Minute, time.Minute
	// maxMessage is how long the words on a failure are, in bytes.
	maxMessage = 512
)

// Hosts makes the client of a Git host.
type Hosts interface {
	Proposer(provider, repository string, secret map[string][]byte) (report.Proposer, error)
}

// Tools are what a pull request is opened with.
type Tools struct {
	// Revert returns what pushes a commit to a new branch of the NodeSync's source.
	Revert func() func(ctx context.Context, r source.Revert) (source.Reverted, error)
	Hosts  Hosts
	// Confine builds kustomizations in child processes; nil builds them in this one.
	Confine *confine.Runner
	// Secret reads a Secret of the NodeSync's namespace.
	Secret func(ctx context.Context, name string) (*corev1.Secret, error)
	Grants grant.Policy
	// StillLeader returns an error when the lease is no longer ours.
	StillLeader func(context.Context) error
}

// Look is what a pass knows of its rollout.
type Look struct {
	Tools
	Sync *v1alpha1.NodeSync
	// Recorded are the pools as the status has them, and Pools as this pass has found them.
	Recorded, Pools []v1alpha1.PoolRollout
	// Cluster is the name of the EKS cluster.
	Cluster string
	// Inputs are the files that the NodeSync is made of.
	Inputs render.Inputs
	Now    time.Time
}

// Asker opens pull requests for one NodeSync beside its passes, and keeps the last answer. The zero
// value has asked nothing.
type Asker struct {
	mu    sync.Mutex
	known map[string]*state
	// reported is what events have reported of each pool: the status has it with values hidden.
	reported map[string]v1alpha1.RevertProposal
}

// state is what is known of one pull request.
type state struct {
	asking bool
	// due is when it is tried again, after so many failures in a row, of a NodeSync of that
	// generation.
	due        time.Time
	failures   int
	generation int64
	// answer is nil before the first one.
	answer *v1alpha1.RevertProposal
}

// See returns the pools with what has become of their pull requests. Those that are due are asked
// for in a goroutine that no pass waits for: a later one has the answer.
func (a *Asker) See(ctx context.Context, l Look, found *finding.Findings) []v1alpha1.PoolRollout {
	reverts, none := l.due()
	answers := map[string]*v1alpha1.RevertProposal{}
	for pool, why := range none {
		answers[pool] = &v1alpha1.RevertProposal{Message: why}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	wanted := map[string]*state{}
	for _, r := range reverts {
		branch := branchOf(l.Cluster, l.Sync.Name, r.Bad)
		s := a.begin(ctx, l, r, branch)
		wanted[branch] = s
		for _, pool := range r.Pools {
			answers[pool] = s.answer.DeepCopy() // a conclusion redacts what it is given
		}
		if s.asking {
			found.WakeBy(l.Now.Add(soon))
		} else if !ended(s.answer) {
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
		case e.Proposal != nil && e.Proposal.URL == "" && !l.stands(e):
			e.Proposal = nil
		}
	}
	a.reported = reported
	return l.Pools
}

// begin has a pull request asked for where it is due.
func (a *Asker) begin(ctx context.Context, l Look, r *revert, branch string) *state {
	s := a.known[branch]
	if s == nil {
		s = &state{}
	}
	if s.generation != l.Sync.Generation && !s.asking {
		s.generation, s.due, s.failures = l.Sync.Generation, l.Now, 0
	}
	if s.answer != nil && s.answer.URL != "" {
		r.Known = s.answer.DeepCopy()
	}
	if !s.asking && !l.Now.Before(s.due) && !ended(s.answer) {
		s.asking, s.due = true, l.Now.Add(first)
		l.Sync = l.Sync.DeepCopy() // the pass goes on with the other
		go a.ask(context.WithoutCancel(ctx), s, proposal{Look: l, revert: *r, branch: branch, push: l.Revert()})
	}
	return s
}

func (a *Asker) ask(ctx context.Context, s *state, p proposal) {
	answer, err := p.make(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	s.asking = false
	switch known := p.revert.Known; {
	case err != nil && known != nil:
		answer = *known // until the host can be asked again
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

// announce has events report what has become of a pull request, once.
func announce(pool string, was, is v1alpha1.RevertProposal, found *finding.Findings) {
	if was == is {
		return
	}
	switch {
	case is.URL != "" && is.Changed:
		found.Warn(v1alpha1.ReasonRevertNotProposed, fmt.Sprintf("NodePool/%s: the branch of %s has another commit than the revert that plumbline has made: read it before you merge it", pool, is.URL))
	case is.URL != "" && is.Merged:
		found.Event(v1alpha1.ReasonRevertProposed, fmt.Sprintf("NodePool/%s: %s, which takes back what has failed, was merged", pool, is.URL))
	case is.URL != "" && is.Closed:
		found.Warn(v1alpha1.ReasonRevertNotProposed, fmt.Sprintf("NodePool/%s: the pull request that takes back what has failed was closed, and is not opened again: %s", pool, is.URL))
	case is.URL != "":
		found.Event(v1alpha1.ReasonRevertProposed, fmt.Sprintf("NodePool/%s: %s takes back what has failed: merge it, or correct the definition", pool, is.URL))
	default:
		found.Warn(v1alpha1.ReasonRevertNotProposed, fmt.Sprintf("NodePool/%s: no pull request takes back what has failed: %s", pool, is.Message))
	}
}
