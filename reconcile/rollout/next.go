package rollout

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/blocker"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/rollout/judge"
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
	// Pending reports whether a commit waits to be written until Karpenter can replace no node of the pool, and Removed
	// whether the removal of the pool has started.
	Pending, Removed bool
	// Unknown reports whether it is unknown which of its nodes are outdated, and Restores whether a commit was written that
	// reverts what is being rolled out.
	Unknown, Restores bool
	// Nodes are its nodes in waves, and Verdict is about the workloads on the new ones.
	Nodes   WaveNodes
	Verdict judge.Verdict
	// Closed is why the budgets in Git allow no replacement now, empty if they do, and Opens is until when; zero if unknown.
	Closed string
	Opens  time.Time
}

// BrakeSeen is the input about a rollout.
type BrakeSeen struct {
	// Pools are those in which nodes must be replaced, or may have to be.
	Pools  []BrakePool
	Policy v1alpha1.RolloutPolicy
	// Since is when the rollout started.
	Since metav1.Time
	// Held names the conditions that hold the rollout; empty if none does. Unasked reports that this is still unknown:
	// what is held stays held. Unreachable names those that cannot be queried and do not hold it.
	Held        string
	Unasked     bool
	Unreachable string
	// Frozen is why spec.guard.windows and freeze let no node be replaced now; empty if they do.
	Frozen string
	// InForce reports whether no budgets are restored: what is stopped stays stopped.
	InForce bool
	// Resume are the pools that a person has resumed, each with the time at which it was stopped. Continue are those in
	// which a person has continued a wave, each with the time at which it began, and ContinueReason is why.
	Resume         map[string]string
	Continue       map[string]string
	ContinueReason string
	// WatchUntil is that of the rollout; nil if a node is outdated.
	WatchUntil *metav1.Time
	Now        time.Time
}

// Next returns the new state of a rollout's pools, by name, and when it may change without any event; zero if it may
// not.
func Next(before []v1alpha1.PoolRollout, seen BrakeSeen) (next []v1alpha1.PoolRollout, wake time.Time) {
	turns := turnsOf(before, seen.Policy.GetWaves(), seen.Now)
	for _, pool := range seen.Pools {
		was := entryOf(before, pool.Name)
		e, at := seen.next(was, pool)
		wave := seen.wave(&e, was, pool, turns)
		if w := e.Wave; w != nil && w.NextAt != nil && !seen.Now.Before(w.NextAt.Time) {
			w.NextAt = nil // something else delays it
		}
		next, wake = append(next, e), earliest(earliest(wake, at), wave)
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
		if hasFailed(before) {
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

// hasFailed reports whether what a commit has launched in a pool fails.
func hasFailed(e *v1alpha1.PoolRollout) bool {
	return e.Reason == v1alpha1.BrakeFailedLaunches || e.Reason == v1alpha1.BrakeFailedWave
}

// next returns the new state of one pool.
func (s BrakeSeen) next(before *v1alpha1.PoolRollout, pool BrakePool) (v1alpha1.PoolRollout, time.Time) {
	if s.InForce && before != nil && before.BrakedAt != nil {
		return *before, time.Time{}
	}
	now := metav1.NewTime(s.Now).Rfc3339Copy()
	e := s.begin(before, pool)
	var wake time.Time
	failedWave := e.BrakedAt != nil && e.Reason == v1alpha1.BrakeFailedWave && s.Policy.GetWaves() != nil
	if latched := failedWave || e.BrakedAt != nil && e.Reason == v1alpha1.BrakeFailedLaunches && len(e.Failed) >= s.limit(); !latched {
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

// turns are the NodePools that are in a wave, by name, and how many may be.
type turns struct {
	in   []string
	most int
}

func turnsOf(entries []v1alpha1.PoolRollout, policy *v1alpha1.RolloutWaves, now time.Time) *turns {
	t := &turns{}
	if policy == nil {
		return t
	}
	t.most = int(policy.MaxParallelPools)
	for _, e := range entries {
		if hasTurn(e.Wave, policy, now) {
			t.in = append(t.in, e.Pool)
		}
	}
	return t
}

// free reports whether another NodePool may be in a wave, and names one that it waits for otherwise.
func (t *turns) free() (free bool, before string) {
	if t.most == 0 || len(t.in) < t.most {
		return true, ""
	}
	return false, t.in[0]
}

// wave sets the wave of a pool, given the state of its brake, and stops the pool if the wave has failed.
func (s BrakeSeen) wave(e, before *v1alpha1.PoolRollout, pool BrakePool, turns *turns) (wake time.Time) {
	known := before != nil
	if !known {
		before = &v1alpha1.PoolRollout{Definition: e.Definition}
	}
	was, changed := before.Wave, before.Definition != e.Definition
	if failed := before.Reason == v1alpha1.BrakeFailedWave; failed && !s.InForce && !changed && e.Reason != before.Reason {
		e.Wave = nil // a person has decided that the nodes are good
		return time.Time{}
	}
	seen := s.waveSeen(*e, was, pool)
	seen.Changed, seen.Previous, seen.Known = changed, before.Definition, known
	seen.Turn, seen.Before = turns.free()
	if e.Wave, wake = NextWave(was, seen); e.Wave == nil {
		return wake
	}
	if !inWave(was) && inWave(e.Wave) {
		turns.in = append(turns.in, pool.Name)
	}
	if e.Wave.State == v1alpha1.WaveFailed && e.Reason != v1alpha1.BrakeFailedLaunches {
		s.stopWaves(e)
	}
	return wake
}

// waveSeen returns what is known of a pool for its wave; was is the recorded one.
func (s BrakeSeen) waveSeen(e v1alpha1.PoolRollout, was *v1alpha1.RolloutWave, pool BrakePool) WaveSeen {
	uncommitted := pool.Uncommitted != ""
	seen := WaveSeen{
		Policy: s.Policy.GetWaves(), Definition: e.Definition,
		Restored:  restores(was, e.Definition) || pool.Reverted || pool.Restores,
		Committed: pool.Revision != "" && !uncommitted, Pending: pool.Pending,
		Unknown: pool.Unknown, InForce: s.InForce,
		Drifted: uncommitted && e.ResumedAt == nil && s.Policy.GetUnexpectedDrift() == v1alpha1.RolloutWavesOnDrift,
		Nodes:   pool.Nodes, Verdict: s.withConditions(pool.Verdict),
		Closed: pool.Closed, Opens: pool.Opens,
		Stopped: RulesOf(e, pool.Removed).stops(), Held: e.BrakedAt != nil && e.Reason == v1alpha1.BrakeHeldByCondition,
		Continued: s.isContinued(pool.Name, was), Reason: s.ContinueReason, Now: s.Now,
	}
	if s.WatchUntil != nil {
		seen.WatchUntil = s.WatchUntil.Time
	}
	return seen
}

// withConditions returns the verdict about the workloads of a wave, which are not known to be good before each condition of
// spec.rollout.holdWhile has answered. A condition that is true stops the rollout, and one that cannot be queried does
// unless its unreachable is Ignore.
func (s BrakeSeen) withConditions(v judge.Verdict) judge.Verdict {
	switch {
	case v.State != judge.Good:
	case s.Unreachable != "":
		v.State, v.Message = judge.Inconclusive, s.Unreachable
	case s.Unasked:
		v.State, v.Message = judge.Undecided, "the conditions of spec.rollout.holdWhile are being queried"
	}
	return v
}

// isContinued reports whether a person has continued the recorded wave of a pool.
func (s BrakeSeen) isContinued(pool string, was *v1alpha1.RolloutWave) bool {
	return was != nil && s.Continue[pool] == Token(was.BeganAt)
}

// stopWaves stops a pool whose wave has failed.
func (s BrakeSeen) stopWaves(e *v1alpha1.PoolRollout) {
	if now := metav1.NewTime(s.Now).Rfc3339Copy(); e.BrakedAt == nil || e.Reason != v1alpha1.BrakeFailedWave {
		e.BrakedAt = &now
	}
	e.Reason, e.Message = v1alpha1.BrakeFailedWave, e.Wave.Message
}

// restores reports whether the definition of a pool is again the one from before its waves.
func restores(w *v1alpha1.RolloutWave, definition string) bool {
	return w != nil && w.From != "" && w.From == definition
}

// inWave reports whether the first wave of a pool has begun.
func inWave(w *v1alpha1.RolloutWave) bool {
	return w != nil && w.Number > 0 && w.State != v1alpha1.WaveQueued
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
	case uncommitted != "" && s.Policy.GetUnexpectedDrift() == v1alpha1.RolloutBrake:
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

// Awaits returns a rollout with the window of spec.guard or the waves that it waits for, if any, in addition to what
// blocks the nodes that are draining anyway.
func Awaits(r v1alpha1.Rollout, pools []v1alpha1.PoolRollout) v1alpha1.Rollout {
	if i := slices.IndexFunc(pools, frozen); i >= 0 {
		r.Message = blocker.JoinWaits(pools[i].Message, blocker.WaitsIn(r.Message))
	} else if words := WavesWords(pools); words != "" {
		r.Message = blocker.JoinWaits(words, r.Message)
	}
	return r
}

// WavesWords describes the waves of the pools that are not stopped; empty if there are none.
func WavesWords(pools []v1alpha1.PoolRollout) string {
	var all []string
	for _, p := range pools {
		switch words := WaveWords(p.Wave); {
		case words == "" || p.BrakedAt != nil:
		case p.Failure != "":
			all = append(all, fmt.Sprintf("NodePool/%s: %s: %s", p.Pool, words, p.Failure))
		default:
			all = append(all, fmt.Sprintf("NodePool/%s: %s", p.Pool, words))
		}
	}
	return finding.Few(all, "; ")
}

// WaveWords describes a wave: wave 3 of 6: 4 of 7 new nodes good, next at 15:04 UTC. It is empty if w is nil.
func WaveWords(w *v1alpha1.RolloutWave) string {
	if w == nil {
		return ""
	}
	words := fmt.Sprintf("wave %d of %d: ", w.Number, w.Of)
	good := fmt.Sprintf("%d of %s good", w.Good, english.Plural(int(w.New), "new node", ""))
	switch w.State {
	case v1alpha1.WavePreparing:
		return "the commit is written once no node can be replaced, then the first wave begins"
	case v1alpha1.WaveQueued:
		words += "queued"
	case v1alpha1.WaveOpen:
		words += fmt.Sprintf("%d of %s begun", min(w.Begun, w.Size), english.Plural(int(w.Size), "replacement", ""))
		if w.New > 0 {
			words += ", " + good
		}
	case v1alpha1.WaveLast:
		words += "the remaining nodes, " + good
	case v1alpha1.WaveHeld:
		words += "inconclusive, continue it with plumbline resume-rollout --wave"
	case v1alpha1.WaveFailed:
		words += "failed"
	case v1alpha1.WaveJudging:
		words += good
		if w.NextAt != nil {
			words += ", next at " + w.NextAt.UTC().Format("15:04 UTC")
		}
	}
	if w.Message != "" {
		words += " (" + w.Message + ")"
	}
	return words
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
		s.sendWave(ctx, was, e)
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

// sendWave sends an event when a wave begins, or is held. That of the first one reports what waves do not limit.
func (s *BrakeStep) sendWave(ctx context.Context, was *v1alpha1.PoolRollout, e v1alpha1.PoolRollout) {
	w, before := e.Wave, (*v1alpha1.RolloutWave)(nil)
	if was != nil {
		before = was.Wave
	}
	if w == nil || w.Number == 0 {
		return
	}
	switch known := before != nil && before.Number == w.Number && before.BeganAt.Equal(&w.BeganAt); {
	case w.State == v1alpha1.WaveHeld && (!known || before.State != v1alpha1.WaveHeld):
		s.Warn(v1alpha1.ReasonWaveHeld, fmt.Sprintf("NodePool/%s: %s", e.Pool, WaveWords(w)))
	case known && endsUndecided(before, w):
		s.Event(v1alpha1.ReasonRollingOut, fmt.Sprintf("NodePool/%s: its nodes are replaced, and what runs on them is %s", e.Pool, w.Message))
	case known || w.State == v1alpha1.WaveQueued:
	case w.State == v1alpha1.WaveLast:
		s.Event(v1alpha1.ReasonWaveBegan, fmt.Sprintf("NodePool/%s: wave %d of %d, the last, begins: %s", e.Pool, w.Number, w.Of, english.Plural(int(w.Size), "node", "")))
	default:
		words := fmt.Sprintf("NodePool/%s: wave %d of %d begins: %s", e.Pool, w.Number, w.Of, english.Plural(int(w.Size), "node", ""))
		if w.Number == 1 {
			words += ". Expiry, interruption and repair are not limited" + s.terminatesFirst(ctx, e.Pool)
		}
		s.Event(v1alpha1.ReasonWaveBegan, words)
	}
}

// endsUndecided reports whether the watch of a wave has ended although workloads are undecided.
func endsUndecided(before, w *v1alpha1.RolloutWave) bool {
	return before.WatchedAt == nil && w.WatchedAt != nil && strings.HasPrefix(w.Message, notDecided)
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
