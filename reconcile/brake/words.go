package brake

import (
	"context"
	"fmt"
	"slices"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/blocker"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
)

// Words say why rollouts are stopped, or go wrong, and what resumes them; empty where all is well, or
// waits for a window of spec.guard.
func Words(pools []v1alpha1.PoolRollout) string {
	var braked, failing []string
	for _, p := range pools {
		switch {
		case frozen(p) && p.Failure == "":
		case p.BrakedAt != nil:
			words := fmt.Sprintf("stopped in NodePool/%s: %s", p.Pool, p.Message)
			if p.Failure != "" {
				words = fmt.Sprintf("NodePool/%s is to be stopped, and is not: %s", p.Pool, p.Failure)
			}
			braked = append(braked, words)
		case p.Reason != "":
			failing = append(failing, fmt.Sprintf("NodePool/%s: %s", p.Pool, p.Message))
		}
	}
	if len(braked) == 0 {
		return finding.Few(failing, "; ")
	}
	return finding.Few(append(braked, failing...), "; ") + "; " + remedy(pools)
}

// frozen says that a pool waits for a window of spec.guard.
func frozen(p v1alpha1.PoolRollout) bool {
	return p.BrakedAt != nil && p.Reason == v1alpha1.BrakeFrozen
}

// Awaits is a rollout with the window of spec.guard that it waits for, where it does, beside what
// keeps the nodes that drain all the same.
func Awaits(r v1alpha1.Rollout, pools []v1alpha1.PoolRollout) v1alpha1.Rollout {
	if i := slices.IndexFunc(pools, frozen); i >= 0 {
		r.Message = blocker.Beside(pools[i].Message, blocker.Said(r.Message))
	}
	return r
}

// Stopped says that a rollout does not go on in a pool, and is not just waiting for a window.
func Stopped(pools []v1alpha1.PoolRollout) bool {
	return slices.ContainsFunc(pools, func(p v1alpha1.PoolRollout) bool { return p.BrakedAt != nil && !frozen(p) })
}

// OnlyHeld says that what is stopped goes on by itself, when the conditions that hold it are over.
func OnlyHeld(pools []v1alpha1.PoolRollout) bool {
	return !slices.ContainsFunc(pools, func(p v1alpha1.PoolRollout) bool {
		return p.BrakedAt != nil && p.Reason != v1alpha1.BrakeHeldByCondition && !frozen(p)
	})
}

// remedy says what resumes the rollouts that are stopped.
func remedy(pools []v1alpha1.PoolRollout) string {
	if OnlyHeld(pools) {
		return "it goes on when that is over, or with plumbline resume-rollout"
	}
	if urls := Proposals(pools); len(urls) > 0 {
		return "merge " + finding.Few(urls, ", ") + ", or correct the definition, or run plumbline resume-rollout"
	}
	words := "revert or correct the definition, or run plumbline resume-rollout"
	for i := range pools {
		switch p := pools[i].Proposal; {
		case p == nil || pools[i].BrakedAt == nil:
		case p.Changed:
			return words + "; the branch of " + p.URL + " has another commit than the revert that plumbline has made: read it before you merge it"
		case p.Merged:
			return words + "; " + p.URL + " was merged: if nothing resumes when that is applied, something else is to be corrected"
		case p.Message != "":
			return words + "; no pull request is open for that: " + p.Message
		}
	}
	return words
}

// Proposals are the open pull requests that take back what has failed, each as plumbline has made it.
func Proposals(pools []v1alpha1.PoolRollout) []string {
	var urls []string
	for i := range pools {
		if p := pools[i].Proposal; pools[i].BrakedAt != nil && p != nil && p.URL != "" && !p.Closed && !p.Merged && !p.Changed && !slices.Contains(urls, p.URL) {
			urls = append(urls, p.URL)
		}
	}
	return urls
}

// tell has events say which pools were stopped and which resumed, once each.
func (s *Step) tell(ctx context.Context, before, next []v1alpha1.PoolRollout) {
	for _, e := range next {
		was := entryOf(before, e.Pool)
		switch {
		case frozen(e) && begins(was, e):
			s.Event(v1alpha1.ReasonRollingOut, fmt.Sprintf("NodePool/%s: %s. Expiry, interruption and repair go on", e.Pool, e.Message))
		case begins(was, e):
			s.Warn(v1alpha1.ReasonRolloutBraked, fmt.Sprintf("Karpenter is to replace no more nodes of NodePool/%s: %s. Expiry, interruption, repair and removals go on%s", e.Pool, e.Message, s.endsFirst(ctx, e.Pool)))
		case e.BrakedAt == nil && e.Reason != "" && (was == nil || was.Reason == ""):
			s.Warn(v1alpha1.ReasonRolloutFailing, fmt.Sprintf("NodePool/%s: %s", e.Pool, e.Message))
		}
	}
	for _, was := range before {
		if was.BrakedAt != nil {
			s.tellResumed(was, entryOf(next, was.Pool))
		}
	}
}

// begins says that a pool is stopped that was not, or only waited for a window.
func begins(was *v1alpha1.PoolRollout, e v1alpha1.PoolRollout) bool {
	return e.BrakedAt != nil && (was == nil || was.BrakedAt == nil || !was.BrakedAt.Equal(e.BrakedAt) || frozen(*was) && !frozen(e))
}

// tellResumed has an event say why a pool that was stopped is not any more; now is nil where no
// node of it is to be replaced.
func (s *Step) tellResumed(was v1alpha1.PoolRollout, now *v1alpha1.PoolRollout) {
	switch {
	case now == nil:
		s.Event(v1alpha1.ReasonRolloutResumed, fmt.Sprintf("NodePool/%s: no node is to be replaced any more", was.Pool))
	case now.BrakedAt != nil:
	case now.ResumedAt != nil && !now.ResumedAt.Equal(was.ResumedAt):
		s.Event(v1alpha1.ReasonRolloutResumed, fmt.Sprintf("NodePool/%s: a person has resumed its rollout", was.Pool))
	case now.DespiteFreeze:
		s.Event(v1alpha1.ReasonRolloutResumed, fmt.Sprintf("NodePool/%s: what its nodes are made by is reverted, and that does not wait", was.Pool))
	case now.Definition != was.Definition:
		s.Event(v1alpha1.ReasonRolloutResumed, fmt.Sprintf("NodePool/%s: what its nodes are made by has changed", was.Pool))
	default:
		s.Event(v1alpha1.ReasonRolloutResumed, fmt.Sprintf("NodePool/%s: what stopped its rollout is over", was.Pool))
	}
}
