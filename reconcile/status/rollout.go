package status

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
	"github.com/plumbline-dev/plumbline/render"
)

// setRolledOut reports whether each node matches its definitions. A reconcile that did not check it keeps what was
// reported, unless Karpenter's kinds are no longer served: then it is unknown.
func (s *Step) setRolledOut() {
	switch {
	case s.Unserved != "" && conditions.Has(s.Sync, v1alpha1.RolledOutCondition):
		conditions.MarkUnknown(s.Sync, v1alpha1.RolledOutCondition, v1alpha1.ReasonWaiting, "%s", finding.Bounded(s.Unserved, MaxMessage))
		return
	case !s.SawRollout:
		return
	}
	switch reason := s.rolloutReason(); reason {
	case "":
		conditions.MarkTrue(s.Sync, v1alpha1.RolledOutCondition, v1alpha1.ReasonSucceeded, "each node matches its definitions")
	case v1alpha1.ReasonRolloutLate:
		conditions.MarkFalse(s.Sync, v1alpha1.RolledOutCondition, reason, "%s", finding.Bounded(s.rolloutBrief(), MaxMessage))
		if conditions.GetReason(s.Before, v1alpha1.RolledOutCondition) != reason {
			s.Warn(reason, s.rolloutBrief())
		}
	case v1alpha1.ReasonRollingOut:
		conditions.MarkFalse(s.Sync, v1alpha1.RolledOutCondition, reason, "%s", finding.Bounded(s.rolloutWords(), MaxMessage))
	default:
		conditions.MarkFalse(s.Sync, v1alpha1.RolledOutCondition, reason, "%s", finding.Bounded(s.rolloutBrief(), MaxMessage))
	}
}

// rolloutReason returns the reason for which RolledOut is False; empty if each node matches its definitions. The commit
// status depends on it as well, and summary.StateOf reads it from the condition.
func (s *Step) rolloutReason() string {
	pools := s.Sync.Status.PoolRollouts
	switch {
	case s.Sync.Status.Rollout == nil:
		return ""
	case rollout.BrakeWords(pools) != "" && s.braked():
		return v1alpha1.ReasonRolloutBraked
	case rollout.BrakeWords(pools) != "":
		return v1alpha1.ReasonRolloutFailing
	case s.rolloutTimedOut():
		return v1alpha1.ReasonRolloutTimedOut
	case s.late() != "":
		return v1alpha1.ReasonRolloutLate
	}
	return v1alpha1.ReasonRollingOut
}

// rolloutTimedOut reports whether nodes do not match for longer than spec.rollout.timeout. Nodes that Karpenter may
// still find do not count.
func (s *Step) rolloutTimedOut() bool {
	r, limit := s.Sync.Status.Rollout, s.Sync.Spec.Rollout.Timeout
	return r != nil && limit != nil && (r.Outdated > 0 || len(r.StaticPools) > 0) && !s.Began.Before(r.Since.Add(limit.Duration))
}

// late describes that the rollout is expected to take longer than spec.rollout.timeout, before it does; empty if it is
// not.
func (s *Step) late() string {
	if s.Sync.Status.Rollout == nil || s.Sync.Spec.Rollout.Timeout == nil || s.rolloutTimedOut() {
		return ""
	}
	return rollout.Late(rollout.Awaits(*s.Sync.Status.Rollout, s.Sync.Status.PoolRollouts))
}

// braked reports whether the rollout is stopped in a pool.
func (s *Step) braked() bool { return rollout.Stopped(s.Sync.Status.PoolRollouts) }

// rolloutWords describes how far the rollout has come, and what it waits for.
func (s *Step) rolloutWords() string {
	return rollout.Words(rollout.Awaits(*s.Sync.Status.Rollout, s.Sync.Status.PoolRollouts))
}

// rolloutBrief describes the rollout in a commit status.
func (s *Step) rolloutBrief() string {
	if words := rollout.BrakeWords(s.Sync.Status.PoolRollouts); words != "" {
		return "rollout " + words
	}
	words := cmp.Or(s.late(), "rolling out: "+s.rolloutWords())
	if s.rolloutTimedOut() {
		words = "not rolled out within " + s.Sync.Spec.Rollout.Timeout.Duration.String() + ": " + s.rolloutWords()
	}
	return words
}

// withRollout makes the commit status of a verdict on what is applied wait for the nodes, and fail if that takes too
// long, whatever else is waited for. Ready does not wait: it is about the definitions, and windows of disruption
// budgets may be a week apart. If only older commits have started the failing rollout, these fail, and this one waits.
func (s *Step) withRollout(v Verdict) Verdict {
	switch {
	case s.rolloutReason() == "":
	case s.rolloutFails() && (v.Class == Done || v.Class == Working):
		v.commitState, v.ofNodes, v.Brief = report.Failure, true, s.failureBrief()
		if older := s.olderThatFail(); len(older) > 0 {
			v.commitState, v.Brief.What = report.Pending, "waits for "+finding.Few(shortened(older), ", ")+": "+v.Brief.What
		}
	case v.Class == Done:
		v.commitState, v.ofNodes, v.Brief = report.Pending, true, fault.Brief{What: s.rolloutBrief()}
	}
	return v
}

// rolloutFails reports whether a rollout fails, is stopped, or takes too long. One that is expected to take too long
// does not fail yet.
func (s *Step) rolloutFails() bool {
	reason := s.rolloutReason()
	return reason != "" && reason != v1alpha1.ReasonRollingOut && reason != v1alpha1.ReasonRolloutLate
}

// olderThatFail returns the commits that have started the failing rollouts; none if this one has started one of them,
// or no commit has.
func (s *Step) olderThatFail() []string {
	revisions := map[string]bool{}
	for _, p := range s.Sync.Status.PoolRollouts {
		if s.counts(p) {
			revisions[p.Revision] = true
		}
	}
	if len(revisions) == 0 {
		revisions[s.Sync.Status.Rollout.Revision] = true
	}
	var commits []string
	for _, revision := range slices.Sorted(maps.Keys(revisions)) {
		commit := render.CommitOf(revision)
		if commit == "" || commit == s.Commit {
			return nil
		}
		commits = append(commits, commit)
	}
	return commits
}

// shortened returns abbreviated commits.
func shortened(commits []string) []string {
	all := make([]string, len(commits))
	for i, commit := range commits {
		all[i] = report.ShortCommit(commit)
	}
	return all
}

// counts reports whether a pool is one of those that fail a commit status: if any pool is stopped, those that are
// stopped.
func (s *Step) counts(p v1alpha1.PoolRollout) bool {
	return p.Reason != "" && (p.Reason != v1alpha1.BrakeFrozen || p.Failure != "") && (p.BrakedAt != nil || !s.braked())
}

// failureBrief describes a failing rollout in a commit status: where, what resumes it, and why.
func (s *Step) failureBrief() fault.Brief {
	pools := s.Sync.Status.PoolRollouts
	if rollout.BrakeWords(pools) == "" {
		return fault.Brief{What: s.rolloutBrief()}
	}
	what, names, cause := "rollout fails in ", []string{}, ""
	for _, p := range pools {
		if s.counts(p) {
			names, cause = append(names, p.Pool), cmp.Or(cause, p.Failure, p.Message)
		}
	}
	if s.braked() {
		what = "rollout stopped until a revert or resume-rollout, in "
		if urls := rollout.Proposals(pools); len(urls) == 1 && len(urls[0]) <= maxURL {
			what = "rollout stopped until " + urls[0] + " is merged or resume-rollout, in "
		}
		if rollout.OnlyHeld(pools) {
			what = "rollout held in "
		}
	}
	return fault.Brief{What: what + finding.Few(names, ", "), Cause: cause}
}

// maxURL is the maximum length, in bytes, of a pull request's URL in a commit status.
const maxURL = 75

// rolloutEvery is the minimum time between two commit statuses that only count nodes: a host limits their number on a
// commit (GitHub: 1,000 in a context).
const rolloutEvery = time.Minute

// counted is the last commit status that counted the nodes of a rollout.
type counted struct {
	commit, text, waits string
	at                  time.Time
}

// pacedText returns the text of the commit status: of a rollout in progress the previous one, until it is time for new
// numbers, or it waits for something else.
func (s *Step) pacedText(v Verdict) string {
	text, r := v.CommitText(), s.Sync.Status.Rollout
	if r == nil || v.Class != Done || v.CommitState() != report.Pending {
		s.Memory.counted = counted{}
		return text
	}
	last, waits := &s.Memory.counted, rollout.Awaits(*r, s.Sync.Status.PoolRollouts).Message
	if s.late() != "" {
		waits = v1alpha1.ReasonRolloutLate + waits
	}
	if last.commit != s.Commit || last.waits != waits || finding.Due(s.Began, last.at, rolloutEvery) {
		*last = counted{commit: s.Commit, text: text, waits: waits, at: s.Began}
	}
	if last.text != text {
		s.WakeBy(last.at.Add(rolloutEvery))
	}
	return last.text
}

// wakeForRollout requests a reconcile for when the rollout, or pools whose launches fail, have taken too long.
func (s *Step) wakeForRollout() {
	limit := s.Sync.Spec.Rollout.Timeout
	if limit == nil {
		return
	}
	if r := s.Rollout; r != nil && !s.rolloutTimedOut() {
		s.WakeBy(r.Since.Add(limit.Duration))
	}
	for _, l := range s.launchesMissing() {
		if at := s.missingSince(l.Pool).Add(limit.Duration); s.Began.Before(at) {
			s.WakeBy(at)
		}
	}
}
