package rollout

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/blocker"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
)

// InitializesWithin is how long a node that has registered may take, from the creation of its NodeClaim, until it is
// initialized. Karpenter waits for ever, but gives up replacing a node for it after 10 minutes (sigs.k8s.io/karpenter
// pkg/controllers/disruption/queue.go).
const InitializesWithin = 15 * time.Minute

// BrakePool is a NodePool in which nodes must be replaced.
type BrakePool struct {
	Name string
	// Definition is the hash of what defines its nodes, and Edited reports that another client, and no commit, has
	// changed that since it last matched Git.
	Definition string
	Edited     bool
	// Launches are those whose nodes have not joined, and Joined is when the newest NodeClaim was created whose node
	// has joined.
	Launches []cluster.Join
	Joined   metav1.Time
	// Reverted reports whether only the revert of its definition, during a freeze, has outdated its nodes.
	Reverted bool
	// Unhealthy reports whether Karpenter reports that the nodes of the pool do not register.
	Unhealthy bool
	// Revision has outdated its nodes, and From was applied before it; both are empty if no commit has. Uncommitted are
	// Karpenter's reasons for the nodes that no commit has outdated.
	Revision, From, Uncommitted string
}

// BrakeSeen is the input about a rollout.
type BrakeSeen struct {
	// Pools are those in which nodes must be replaced, or may have to be.
	Pools  []BrakePool
	Policy v1alpha1.RolloutPolicy
	// Since is when the rollout started.
	Since metav1.Time
	// Held names the conditions that hold the rollout; empty if none does. Unasked reports that this is still unknown:
	// what is held stays held.
	Held    string
	Unasked bool
	// Frozen is why spec.guard.windows and freeze let no node be replaced now; empty if they do.
	Frozen string
	// InForce reports whether no budgets are restored: what is stopped stays stopped.
	InForce bool
	// Resume are the pools that a person has resumed, each with the time at which it was stopped.
	Resume map[string]string
	Now    time.Time
}

// Next returns the new state of a rollout's pools, by name, and when it may change without any event; zero if it may
// not.
func Next(before []v1alpha1.PoolRollout, seen BrakeSeen) (next []v1alpha1.PoolRollout, wake time.Time) {
	for _, pool := range seen.Pools {
		e, at := seen.next(entryOf(before, pool.Name), pool)
		next = append(next, e)
		if !at.IsZero() && (wake.IsZero() || at.Before(wake)) {
			wake = at
		}
	}
	slices.SortFunc(next, func(a, b v1alpha1.PoolRollout) int { return cmp.Compare(a.Pool, b.Pool) })
	return next, wake
}

func entryOf(entries []v1alpha1.PoolRollout, pool string) *v1alpha1.PoolRollout {
	for i := range entries {
		if entries[i].Pool == pool {
			return entries[i].DeepCopy()
		}
	}
	return nil
}

// begin returns the state of one pool before its launches are counted. before is nil if it is new to the rollout.
func (s BrakeSeen) begin(before *v1alpha1.PoolRollout, pool BrakePool) v1alpha1.PoolRollout {
	now := metav1.NewTime(s.Now).Rfc3339Copy()
	e := v1alpha1.PoolRollout{Pool: pool.Name, Definition: pool.Definition, Since: s.Since, Revision: pool.Revision, From: pool.From}
	changed := before != nil && before.Definition != pool.Definition && !pool.Edited
	resumed := before != nil && !changed && before.BrakedAt != nil && s.Resume[pool.Name] == Token(*before.BrakedAt)
	switch {
	case before == nil:
	case changed:
		e.Since = now
		if before.Reason == v1alpha1.BrakeFailedLaunches {
			e.From = before.From // the revision that this one corrects has failed, too
		}
	case resumed:
		e.Since, e.Revision, e.From, e.ResumedAt = now, before.Revision, before.From, &now
	default:
		e = *before
	}
	e.DespiteFreeze = s.Frozen != "" && (resumed || pool.Reverted || before != nil && before.DespiteFreeze && !changed)
	return e
}

// next returns the new state of one pool.
func (s BrakeSeen) next(before *v1alpha1.PoolRollout, pool BrakePool) (v1alpha1.PoolRollout, time.Time) {
	if s.InForce && before != nil && before.BrakedAt != nil {
		return *before, time.Time{}
	}
	now := metav1.NewTime(s.Now).Rfc3339Copy()
	e := s.begin(before, pool)
	var wake time.Time
	if latched := e.BrakedAt != nil && e.Reason == v1alpha1.BrakeFailedLaunches && len(e.Failed) >= s.limit(); !latched {
		was := e
		e.Reason, e.Message = "", ""
		wake = s.count(&e, pool)
		s.checkStops(&e, was, pool)
	}
	reported := e.Reason == v1alpha1.BrakeFailedLaunches && s.Policy.OnFailure == v1alpha1.RolloutReport && !s.freezes(&e)
	switch {
	case e.Reason == "" || reported:
		e.BrakedAt = nil
	case e.BrakedAt == nil:
		e.BrakedAt = &now
	}
	return e, wake
}

// freezes reports whether spec.guard lets no node of a pool be replaced now.
func (s BrakeSeen) freezes(e *v1alpha1.PoolRollout) bool { return s.Frozen != "" && !e.DespiteFreeze }

// checkStops finds what stops a pool in which no launches fail: nodes that no commit has outdated, a condition, or a
// freeze. The first two do not stop again what a person has resumed. A freeze comes last, as it ends by itself.
func (s BrakeSeen) checkStops(e *v1alpha1.PoolRollout, was v1alpha1.PoolRollout, pool BrakePool) {
	switch {
	case e.Reason != "":
	case e.ResumedAt == nil && s.stoppedBy(e, was, pool.Uncommitted):
	case s.freezes(e):
		e.Reason, e.Message = v1alpha1.BrakeFrozen, s.Frozen
	}
}

// stoppedBy reports whether nodes that no commit has outdated, or a condition, stop a pool.
func (s BrakeSeen) stoppedBy(e *v1alpha1.PoolRollout, was v1alpha1.PoolRollout, uncommitted string) bool {
	switch {
	case uncommitted != "" && s.Policy.UnexpectedDrift == v1alpha1.RolloutBrake:
		e.Reason, e.Message = v1alpha1.BrakeUnexpectedDrift, fmt.Sprintf("its nodes are outdated, but no commit of this NodeSync caused that (%s)", uncommitted)
	case s.Held != "":
		e.Reason, e.Message = v1alpha1.BrakeHeldByCondition, s.Held
	case s.Unasked && was.Reason == v1alpha1.BrakeHeldByCondition:
		e.Reason, e.Message = was.Reason, was.Message
	}
	return e.Reason != ""
}

// Token identifies one stop of a pool's rollout in the annotation that resumes it.
func Token(brakedAt metav1.Time) string { return brakedAt.UTC().Format(time.RFC3339) }

// limit returns how many consecutive failed launches are too many.
func (s BrakeSeen) limit() int { return cmp.Or(int(s.Policy.FailedLaunches), 3) }

// count counts the failed launches of a pool, and returns when there may be another one.
func (s BrakeSeen) count(e *v1alpha1.PoolRollout, pool BrakePool) (wake time.Time) {
	failed := slices.DeleteFunc(e.Failed, func(f v1alpha1.FailedLaunch) bool { return !pool.Joined.Before(&f.Created) })
	last := ""
	for _, launch := range pool.Launches {
		if launch.Created.Before(&e.Since) {
			continue
		}
		words, at := s.failure(launch, pool)
		if words == "" {
			if !at.IsZero() && (wake.IsZero() || at.Before(wake)) {
				wake = at
			}
			continue
		}
		last = fmt.Sprintf("NodeClaim/%s: %s", launch.NodeClaim, words)
		if !slices.ContainsFunc(failed, func(f v1alpha1.FailedLaunch) bool { return f.NodeClaim == launch.NodeClaim }) {
			failed = append(failed, v1alpha1.FailedLaunch{NodeClaim: launch.NodeClaim, Created: launch.Created})
		}
	}
	slices.SortStableFunc(failed, func(a, b v1alpha1.FailedLaunch) int { return a.Created.Compare(b.Created.Time) })
	e.Failed = slices.Clip(failed[max(0, len(failed)-maxFailed):])
	if len(e.Failed) == 0 {
		e.Failed = nil
	}
	if len(e.Failed) >= s.limit() {
		e.Reason = v1alpha1.BrakeFailedLaunches
		e.Message = fmt.Sprintf("the nodes of %d launches in a row have not joined the cluster", len(e.Failed))
		if last != "" {
			e.Message += ", the last: " + last
		}
	}
	return wake
}

// maxFailed is how many failed launches are recorded: the maximum of spec.rollout.failedLaunches.
const maxFailed = 20

// failure returns why a launch has failed, or when it may have; both are empty if its NodeClaim has the reason.
func (s BrakeSeen) failure(launch cluster.Join, pool BrakePool) (words string, at time.Time) {
	var within time.Duration
	switch {
	case launch.Failed != "":
		return launch.Failed, time.Time{}
	case launch.Registered:
		within, words = InitializesWithin, "its node "+notInitialized()
	case pool.Unhealthy && launch.ProviderID != "":
		within, words = cluster.RegistersWithin, "it has an instance, but its node has not registered, and Karpenter reports the same for other nodes of the NodePool"
	default:
		return "", time.Time{}
	}
	if at = launch.Created.Add(within); s.Now.Before(at) {
		return "", at
	}
	return words, time.Time{}
}

// explain adds, to a new stop, EC2's message about the instance of the last failed launch. If there is none, or EC2
// does not answer, only Karpenter's message is reported.
func (s *BrakeStep) explain(ctx context.Context, e *v1alpha1.PoolRollout) {
	if e.Reason != v1alpha1.BrakeFailedLaunches || s.EC2 == nil || s.Sync.Status.Karpenter == nil {
		return
	}
	launches, _ := s.Launches.Joins(e.Pool)
	for _, launch := range slices.Backward(launches) {
		if launch.Failed == "" || launch.ProviderID == "" {
			continue
		}
		ec2, err := s.EC2(ctx, s.Sync.Status.Karpenter.Region)
		if err != nil {
			return
		}
		instances, err := ec2.Instances(ctx, cloud.Query{ProviderIDs: []string{launch.ProviderID}})
		if err == nil && len(instances) == 1 && instances[0].Reason != "" {
			e.Message += fmt.Sprintf(" (EC2: %s)", instances[0].Reason)
		}
		return
	}
}

// BrakeWords describes why rollouts are stopped, or fail, and what resumes them; empty if there is no problem, or if
// they wait for a window of spec.guard.
func BrakeWords(pools []v1alpha1.PoolRollout) string {
	var braked, failing []string
	for _, p := range pools {
		switch {
		case frozen(p) && p.Failure == "":
		case p.BrakedAt != nil:
			words := fmt.Sprintf("stopped in NodePool/%s: %s", p.Pool, p.Message)
			if p.Failure != "" {
				words = fmt.Sprintf("NodePool/%s cannot be stopped: %s", p.Pool, p.Failure)
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

// frozen reports whether a pool waits for a window of spec.guard.
func frozen(p v1alpha1.PoolRollout) bool {
	return p.BrakedAt != nil && p.Reason == v1alpha1.BrakeFrozen
}

// Awaits returns a rollout with the window of spec.guard that it waits for, if any, in addition to what blocks the
// nodes that are draining anyway.
func Awaits(r v1alpha1.Rollout, pools []v1alpha1.PoolRollout) v1alpha1.Rollout {
	if i := slices.IndexFunc(pools, frozen); i >= 0 {
		r.Message = blocker.JoinWaits(pools[i].Message, blocker.WaitsIn(r.Message))
	}
	return r
}

// Stopped reports whether a rollout is stopped in a pool, and is not just waiting for a window.
func Stopped(pools []v1alpha1.PoolRollout) bool {
	return slices.ContainsFunc(pools, func(p v1alpha1.PoolRollout) bool { return p.BrakedAt != nil && !frozen(p) })
}

// OnlyHeld reports whether what is stopped continues by itself, when the conditions that hold it are over.
func OnlyHeld(pools []v1alpha1.PoolRollout) bool {
	return !slices.ContainsFunc(pools, func(p v1alpha1.PoolRollout) bool {
		return p.BrakedAt != nil && p.Reason != v1alpha1.BrakeHeldByCondition && !frozen(p)
	})
}

// remedy describes what resumes the rollouts that are stopped.
func remedy(pools []v1alpha1.PoolRollout) string {
	if OnlyHeld(pools) {
		return "it resumes when the condition clears, or with plumbline resume-rollout"
	}
	if urls := Proposals(pools); len(urls) > 0 {
		return "merge " + finding.Few(urls, ", ") + ", or correct the definition, or run plumbline resume-rollout"
	}
	words := "revert or correct the definition, or run plumbline resume-rollout"
	for i := range pools {
		switch p := pools[i].Proposal; {
		case p == nil || pools[i].BrakedAt == nil:
		case p.Changed:
			return words + "; the branch of " + p.URL + " has a commit other than the revert that plumbline created: review it before you merge it"
		case p.Merged:
			return words + "; " + p.URL + " was merged: if the rollout does not resume once it is applied, something else needs correction"
		case p.Message != "":
			return words + "; plumbline has opened no pull request: " + p.Message
		}
	}
	return words
}

// Proposals returns the open pull requests that revert what has failed, each as plumbline has created it.
func Proposals(pools []v1alpha1.PoolRollout) []string {
	var urls []string
	for i := range pools {
		if p := pools[i].Proposal; pools[i].BrakedAt != nil && p != nil && p.URL != "" && !p.Closed && !p.Merged && !p.Changed &&
			!slices.Contains(urls, p.URL) {
			urls = append(urls, p.URL)
		}
	}
	return urls
}

// sendEvents sends events about pools that were stopped or resumed, once each.
func (s *BrakeStep) sendEvents(ctx context.Context, before, next []v1alpha1.PoolRollout) {
	for _, e := range next {
		was := entryOf(before, e.Pool)
		switch {
		case frozen(e) && isNewStop(was, e):
			s.Event(v1alpha1.ReasonRollingOut, fmt.Sprintf("NodePool/%s: %s. Expiry, interruption and repair continue", e.Pool, e.Message))
		case isNewStop(was, e):
			s.Warn(v1alpha1.ReasonRolloutBraked, fmt.Sprintf("rollout of NodePool/%s stopped: %s. Expiry, interruption, repair and removals continue%s", e.Pool, e.Message, s.terminatesFirst(ctx, e.Pool)))
		case e.BrakedAt == nil && e.Reason != "" && (was == nil || was.Reason == ""):
			s.Warn(v1alpha1.ReasonRolloutFailing, fmt.Sprintf("NodePool/%s: %s", e.Pool, e.Message))
		}
	}
	for _, was := range before {
		if was.BrakedAt != nil {
			s.sendResumed(was, entryOf(next, was.Pool))
		}
	}
}

// isNewStop reports whether a pool is stopped that was not, or that only waited for a window.
func isNewStop(was *v1alpha1.PoolRollout, e v1alpha1.PoolRollout) bool {
	return e.BrakedAt != nil && (was == nil || was.BrakedAt == nil || !was.BrakedAt.Equal(e.BrakedAt) || frozen(*was) && !frozen(e))
}

// sendResumed sends an event that says why a pool is no longer stopped; now is nil if no node of it must be replaced.
func (s *BrakeStep) sendResumed(was v1alpha1.PoolRollout, now *v1alpha1.PoolRollout) {
	switch {
	case now == nil:
		s.Event(v1alpha1.ReasonRolloutResumed, fmt.Sprintf("NodePool/%s: no outdated nodes are left", was.Pool))
	case now.BrakedAt != nil:
	case now.ResumedAt != nil && !now.ResumedAt.Equal(was.ResumedAt):
		s.Event(v1alpha1.ReasonRolloutResumed, fmt.Sprintf("NodePool/%s: a user resumed its rollout", was.Pool))
	case now.DespiteFreeze:
		s.Event(v1alpha1.ReasonRolloutResumed, fmt.Sprintf("NodePool/%s: change reverted; reverts bypass freezes", was.Pool))
	case now.Definition != was.Definition:
		s.Event(v1alpha1.ReasonRolloutResumed, fmt.Sprintf("NodePool/%s: the NodePool or its EC2NodeClass changed", was.Pool))
	default:
		s.Event(v1alpha1.ReasonRolloutResumed, fmt.Sprintf("NodePool/%s: the condition that stopped its rollout cleared", was.Pool))
	}
}
