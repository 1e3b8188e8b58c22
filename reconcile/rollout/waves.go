package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/dustin/go-humanize/english"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/rollout/judge"
)

// WaveNodes are the nodes of a NodePool in waves, by the names of their NodeClaims.
type WaveNodes struct {
	// Waiting are outdated and not being replaced. Launching are outdated, and Karpenter launches their replacements;
	// Draining are outdated and have a deletionTimestamp.
	Waiting, Launching, Draining []string
	// Disrupting is how many nodes of the pool, outdated or not, Karpenter counts against its disruption budgets.
	Disrupting int
	// New is the number of nodes that were launched since the wave began, and Good how many of them are initialized and
	// good (judge.Verdict.Good).
	New, Good int
	// Earlier is the number of nodes that match and were launched since the wave judges nodes (RolloutWave.JudgesSince).
	Earlier int
	// Relaunched is how many of Waiting were launched since the first wave began, and are outdated again although no commit
	// has changed their definition.
	Relaunched int
	// Excused are the workloads that do not count in this wave and in later ones.
	Excused []string
	// NotReady are nodes that are NotReady, if that was checked. They use up the disruption budgets.
	NotReady []string
}

// WaveSeen is the input about the wave of one NodePool.
type WaveSeen struct {
	// Policy is spec.rollout.waves with its defaults; nil if waves are off.
	Policy *v1alpha1.RolloutWaves
	// Definition is the hash of what defined its nodes when it was last seen, or defines them now if that is new. Changed
	// reports whether a commit has changed it since, and Restored whether it is again the one from before the waves.
	Definition        string
	Changed, Restored bool
	// Previous is the hash of what defined its nodes when it was last seen.
	Previous string
	// Committed reports whether a commit has outdated the nodes, Drifted whether no commit has and they are replaced in waves
	// (spec.rollout.unexpectedDrift), and Known whether the pool was part of the rollout before.
	Committed, Drifted, Known bool
	// Pending reports whether a commit waits to be written until Karpenter can replace no node of the pool.
	Pending bool
	// Unknown reports whether it is unknown which nodes are outdated, and InForce whether it is unknown what Git wants.
	Unknown, InForce bool
	Nodes            WaveNodes
	// Verdict is about the workloads on the new nodes; its State is empty if it is unknown.
	Verdict judge.Verdict
	// Stopped reports whether something else decides how many nodes may be replaced (precedence.go), and Held whether that
	// is a condition of spec.rollout.holdWhile.
	Stopped, Held bool
	// Turn reports whether the first wave may begin (maxParallelPools), and Before names a pool that it waits for.
	Turn   bool
	Before string
	// Closed is why the budgets in Git allow no replacement now, empty if they do, and Opens is until when; zero if unknown.
	Closed string
	Opens  time.Time
	// Continued reports whether a person has continued this wave, and Reason is why.
	Continued bool
	Reason    string
	// WatchUntil is until when workloads are judged although no node is outdated any more; zero if one is.
	WatchUntil time.Time
	Now        time.Time
}

// NextWave returns the new state of a NodePool's wave, and when it may change without any event; zero if it may not. nil
// means that the disruption budgets in Git apply.
func NextWave(before *v1alpha1.RolloutWave, seen WaveSeen) (next *v1alpha1.RolloutWave, wake time.Time) {
	switch {
	case seen.InForce:
		return seen.keep(before)
	case seen.Policy == nil:
		return nil, time.Time{}
	case seen.Pending:
		return seen.prepare(before), time.Time{}
	case seen.Changed && seen.Restored:
		return nil, time.Time{} // a revert is not delayed
	case seen.Unknown:
		return seen.keep(before)
	case seen.begins(before):
		return seen.first(before), seen.Now
	case before == nil:
		return nil, time.Time{}
	}
	w := before.DeepCopy()
	if w.State == v1alpha1.WavePreparing {
		if seen.Changed {
			w.BeganAt = seen.timestamp()
		}
		if until := w.BeganAt.Add(Settles); seen.Now.Before(until) {
			return w, until
		}
		if w.NewSince == nil || seen.Nodes.Earlier == 0 {
			return nil, time.Time{} // the commit was withdrawn, or replaces no nodes
		}
		w.Number, w.Of, w.State, w.BeganAt, w.Waiting = 1, 1, v1alpha1.WaveLast, seen.timestamp(), int32(len(seen.Nodes.Waiting))
	}
	if seen.Changed {
		seen.continueAfterCommit(w)
	}
	seen.count(w)
	wake = seen.advance(w)
	return w, earliest(wake, seen.watch(w))
}

// notDecided begins the message of a wave that is complete although nothing ran that proves anything.
const notDecided = "inconclusive: "

// watch notes in the last wave that the workloads are not bad once the time is over in which they are judged after the last
// node was replaced. What is undecided then, or inconclusive while pods fail, is accepted after inconclusiveAfter, and with
// onInconclusive: Hold never; neither is what cannot be read. A person may end both.
func (s WaveSeen) watch(w *v1alpha1.RolloutWave) time.Time {
	if w.State != v1alpha1.WaveLast || s.WatchUntil.IsZero() || s.Now.Before(s.WatchUntil) {
		w.WatchedAt = nil
		return time.Time{}
	}
	limit := s.WatchUntil.Add(s.Policy.GetInconclusiveAfter())
	open := s.mayBecomeBad()
	switch {
	case w.WatchedAt != nil && !w.WatchedAt.Time.Before(s.WatchUntil):
		return time.Time{}
	case s.Continued && s.Verdict.State != judge.Good:
		w.Continued = &v1alpha1.ContinuedWave{Number: w.Number, At: s.timestamp(), Reason: s.Reason}
		w.Message = notDecided + cmp.Or(s.Verdict.Message, "the workloads cannot be read")
	case s.Verdict.State == "":
		return s.Verdict.Again
	case open && s.Policy.OnInconclusive == v1alpha1.InconclusiveHold:
		return s.Verdict.Again
	case open && s.Now.Before(limit):
		return earliest(limit, s.Verdict.Again)
	case s.Verdict.State != judge.Good:
		w.Message = notDecided + s.Verdict.Message
	}
	now := s.timestamp()
	w.WatchedAt = &now
	return s.Now
}

// mayBecomeBad reports whether the verdict on a wave may still become bad.
func (s WaveSeen) mayBecomeBad() bool {
	return s.Verdict.State == judge.Undecided || s.Verdict.State == judge.Inconclusive && s.Verdict.HasFailingPods()
}

// keep returns the recorded wave while it is unknown which nodes are outdated, or what Git wants: no replacement counts,
// because a node that is not known to be outdated would count as replaced.
func (s WaveSeen) keep(before *v1alpha1.RolloutWave) (next *v1alpha1.RolloutWave, wake time.Time) {
	switch {
	case before == nil:
		return nil, time.Time{}
	case s.Changed:
		before = s.prepare(before) // whether enough nodes are outdated for waves is not known yet
	}
	w := before.DeepCopy()
	if w.State == v1alpha1.WavePreparing {
		w.BeganAt = s.timestamp() // Karpenter gets the full time to find the outdated nodes
	}
	if s.Policy == nil || s.fails(w) {
		return w, time.Time{}
	}
	return w, earliest(s.watch(w), s.Verdict.Again)
}

// fails stops a wave with bad workloads, and reports whether it has failed.
func (s WaveSeen) fails(w *v1alpha1.RolloutWave) bool {
	if s.Verdict.State == judge.Bad && inWave(w) {
		w.State, w.NextAt, w.WatchedAt, w.Message = v1alpha1.WaveFailed, nil, nil, s.Verdict.Message
	}
	return w.State == v1alpha1.WaveFailed
}

// prepare returns the wave of a pool in which a commit is about to be written.
func (s WaveSeen) prepare(before *v1alpha1.RolloutWave) *v1alpha1.RolloutWave {
	if before != nil && before.State == v1alpha1.WavePreparing {
		return before.DeepCopy()
	}
	w := &v1alpha1.RolloutWave{State: v1alpha1.WavePreparing, Since: s.timestamp(), BeganAt: s.timestamp(), From: s.from(before)}
	if before != nil {
		since := before.JudgesSince()
		w.NewSince, w.Excused = &since, slices.Clone(before.Excused)
	}
	return w
}

// from returns the definition that a commit restores if it is a revert: the one before the waves, because the commit whose
// nodes are being replaced is not known to be good, or the last one if all of its nodes were replaced.
func (s WaveSeen) from(before *v1alpha1.RolloutWave) string {
	if before == nil || before.State == v1alpha1.WaveLast && before.Waiting == 0 {
		return s.Previous
	}
	return before.From
}

// continueAfterCommit continues a wave after a commit that leaves too few outdated nodes for waves: the new nodes are
// judged further, and those that the commit has outdated are not outdated again by themselves. A wave with bad workloads
// has failed for the previous definition: they are judged once more.
func (s WaveSeen) continueAfterCommit(w *v1alpha1.RolloutWave) {
	since := w.JudgesSince()
	w.From, w.NewSince, w.Since = s.from(w), &since, s.timestamp()
	if w.State == v1alpha1.WaveFailed {
		w.State, w.ReplacedAt, w.Message = v1alpha1.WaveLast, nil, ""
	}
}

// begins reports whether the first wave begins.
func (s WaveSeen) begins(before *v1alpha1.RolloutWave) bool {
	enough := len(s.Nodes.Waiting) >= plan.MinWaved
	switch {
	case before == nil:
		return enough && (s.Committed && (s.Changed || !s.Known) || s.Drifted)
	case before.State == v1alpha1.WavePreparing:
		return enough && (s.Changed || s.Committed)
	}
	return s.Changed && enough || s.Nodes.Relaunched > 0 && before.State == v1alpha1.WaveOpen && before.Number == 1 && before.Begun == 0
}

// first returns the first wave.
func (s WaveSeen) first(before *v1alpha1.RolloutWave) *v1alpha1.RolloutWave {
	w := &v1alpha1.RolloutWave{Since: s.timestamp()}
	if before != nil || s.Changed {
		w.From = s.from(before)
	}
	if before != nil && s.Nodes.Earlier > 0 && (before.Number > 0 || before.NewSince != nil) {
		since := before.JudgesSince()
		w.NewSince, w.Excused = &since, slices.Clone(before.Excused)
	}
	s.begin(w, max(s.Policy.Start, 1))
	if !s.Changed && (before == nil || before.State != v1alpha1.WavePreparing) {
		w.Leaving = nil // nothing limited these: they are the first nodes with what no commit has changed
	}
	if why := s.queued(); w.Limits() && why != "" {
		w.State, w.Message = v1alpha1.WaveQueued, why
	}
	return w
}

// queued returns why the first wave may not begin; empty if it may. A pool has no turn before the budgets in Git allow a
// replacement: other pools would wait for it.
func (s WaveSeen) queued() string {
	switch {
	case s.Closed != "" && s.Policy.MaxParallelPools > 0:
		return s.Closed
	case !s.Turn:
		return "waits until no wave of NodePool/" + s.Before + " is in progress"
	}
	return ""
}

// begin begins the next wave, with a number of nodes. What is still being replaced belongs to the one before.
func (s WaveSeen) begin(w *v1alpha1.RolloutWave, size int32) {
	waiting := int32(len(s.Nodes.Waiting))
	w.Number, w.Size, w.State, w.BeganAt = w.Number+1, size, v1alpha1.WaveOpen, s.timestamp()
	w.Begun, w.New, w.Good, w.Waiting, w.Replacing = 0, 0, 0, waiting, nil
	w.Leaving = slices.Sorted(slices.Values(slices.Concat(s.Nodes.Launching, s.Nodes.Draining)))
	w.ReplacedAt, w.NextAt, w.Message = nil, nil, ""
	if size > plan.MaxWave || w.Number > 1 && size >= waiting {
		w.State, w.Size, w.Leaving = v1alpha1.WaveLast, waiting, nil
	}
	w.Of = w.Number + int32(len(plan.WaveSizes(s.Policy, w.Number, int(waiting)))) - 1
}

// timestamp returns the time with the precision of the status.
func (s WaveSeen) timestamp() metav1.Time { return metav1.NewTime(s.Now).Rfc3339Copy() }

// count counts the nodes of a wave that Karpenter has begun to replace. A replacement that Karpenter has given up does
// not count. A node that is gone, or no longer waits, counts even if plumbline has not seen it in between.
func (s WaveSeen) count(w *v1alpha1.RolloutWave) {
	if w.State == v1alpha1.WaveLast {
		s.countLast(w)
		return
	}
	leaving := slices.Concat(s.Nodes.Launching, s.Nodes.Draining)
	contains := func(names []string) func(string) bool {
		set := make(map[string]bool, len(names))
		for _, name := range names {
			set[name] = true
		}
		return func(name string) bool { return set[name] }
	}
	leaves, waits := contains(leaving), contains(s.Nodes.Waiting)
	known, returned, begun := contains(slices.Concat(w.Replacing, w.Leaving)), 0, 0
	for _, name := range w.Leaving {
		if waits(name) {
			returned++
		}
	}
	w.Leaving = slices.DeleteFunc(w.Leaving, func(name string) bool { return !leaves(name) })
	var replacing []string
	for _, name := range w.Replacing {
		switch {
		case leaves(name):
			replacing = append(replacing, name)
		case waits(name):
			returned++
			w.Begun--
		}
	}
	for _, name := range leaving {
		if !known(name) {
			begun++
			replacing = append(replacing, name)
		}
	}
	gone := max(0, int(w.Waiting)+returned-begun-len(s.Nodes.Waiting))
	slices.Sort(replacing)
	w.Replacing, w.Waiting = replacing, int32(len(s.Nodes.Waiting))
	w.Begun += int32(begun + gone)
	w.New, w.Good, w.Excused = int32(s.Nodes.New), int32(s.Nodes.Good), s.Nodes.Excused
}

// countLast counts the nodes of the last wave, of which no names are recorded: those that no longer wait.
func (s WaveSeen) countLast(w *v1alpha1.RolloutWave) {
	waiting := int32(len(s.Nodes.Waiting))
	w.Begun = max(0, w.Begun+w.Waiting-waiting)
	w.Waiting, w.Replacing, w.Size = waiting, nil, max(w.Size, w.Begun+waiting)
	w.New, w.Good, w.Excused = int32(s.Nodes.New), int32(s.Nodes.Good), s.Nodes.Excused
}

// launches reports whether Karpenter still launches a replacement for a node of the wave.
func (s WaveSeen) launches(w *v1alpha1.RolloutWave) bool {
	return slices.ContainsFunc(w.Replacing, func(name string) bool { return slices.Contains(s.Nodes.Launching, name) })
}

// advance moves a wave to its next state, and returns when that may change again.
func (s WaveSeen) advance(w *v1alpha1.RolloutWave) time.Time {
	switch {
	case s.fails(w):
		return time.Time{}
	case s.Stopped:
		return s.stop(w)
	}
	if s.Nodes.Relaunched > 0 && (w.State == v1alpha1.WaveOpen || w.State == v1alpha1.WaveLast) {
		w.State, w.Size, w.ReplacedAt, w.NextAt = v1alpha1.WaveJudging, w.Begun, nil, nil // the first wave is next
	}
	switch w.State {
	case v1alpha1.WaveQueued:
		if w.Message = s.queued(); w.Message != "" && w.Waiting > 0 {
			return s.Opens
		}
		w.State, w.BeganAt, w.Message = v1alpha1.WaveOpen, s.timestamp(), ""
	case v1alpha1.WaveOpen:
		return s.open(w)
	case v1alpha1.WaveJudging, v1alpha1.WaveHeld:
		return s.judge(w)
	case v1alpha1.WaveLast:
		w.Message = s.Verdict.Message
		return earliest(s.last(w), s.Verdict.Again)
	case v1alpha1.WavePreparing, v1alpha1.WaveFailed: // NextWave and the cases above
	}
	return time.Time{}
}

// stop keeps a wave while the pool is stopped.
func (s WaveSeen) stop(w *v1alpha1.RolloutWave) time.Time {
	w.NextAt = nil
	if s.Held && (w.State == v1alpha1.WaveJudging || w.State == v1alpha1.WaveHeld) {
		w.State, w.ReplacedAt = v1alpha1.WaveJudging, nil // it is judged again once the condition clears
	}
	return s.Verdict.Again
}

// last notes since when no node of the last wave waits or is launched, and returns when its turn is over.
func (s WaveSeen) last(w *v1alpha1.RolloutWave) time.Time {
	switch {
	case w.Waiting > 0 || len(s.Nodes.Launching) > 0:
		w.ReplacedAt = nil
		return time.Time{}
	case w.ReplacedAt == nil:
		now := s.timestamp()
		w.ReplacedAt = &now
	}
	if over := w.ReplacedAt.Add(s.Policy.GetPause()); s.Now.Before(over) {
		return over
	}
	return time.Time{}
}

// hasTurn reports whether a pool is in a wave, so that others may have to wait (maxParallelPools): until the workloads on
// its last nodes have been judged for the pause.
func hasTurn(w *v1alpha1.RolloutWave, policy *v1alpha1.RolloutWaves, now time.Time) bool {
	return inWave(w) && (w.Limits() || w.ReplacedAt == nil || now.Before(w.ReplacedAt.Add(policy.GetPause())))
}

// beginsWithin is how long Karpenter may take to begin a replacement before plumbline looks for what keeps it from that.
const beginsWithin = time.Minute

// open closes a wave once as many replacements have begun as it has nodes.
func (s WaveSeen) open(w *v1alpha1.RolloutWave) time.Time {
	w.Of = w.Number + int32(len(plan.WaveSizes(s.Policy, w.Number, int(w.Begun+w.Waiting)))) - 1
	w.Message = ""
	if w.New > 0 {
		w.Message = s.Verdict.Message
	}
	switch {
	case w.Begun >= w.Size || w.Begun > 0 && w.Waiting == 0:
		w.State = v1alpha1.WaveJudging
		return s.judge(w)
	case w.Waiting == 0:
		w.Message = "Karpenter has not found the outdated nodes yet"
	case s.Closed != "":
		w.Message = s.Closed
		if s.Policy.MaxParallelPools > 0 && w.Number == 1 && w.Begun == 0 {
			w.State = v1alpha1.WaveQueued
			return s.Now // for other pools
		}
		return earliest(s.Opens, s.Verdict.Again)
	case len(s.Nodes.NotReady) >= WaveBudget(w):
		w.Message = fmt.Sprintf("Karpenter begins no replacement: it counts node %s, which %s NotReady, against the disruption budgets",
			finding.Few(s.Nodes.NotReady, ", "), english.PluralWord(len(s.Nodes.NotReady), "is", "are"))
	case s.Now.Before(w.BeganAt.Add(beginsWithin)):
		return earliest(w.BeganAt.Add(beginsWithin), s.Verdict.Again)
	case s.Nodes.Disrupting >= WaveBudget(w):
		w.Message = fmt.Sprintf("waits for %s that Karpenter is still replacing or deleting", english.Plural(s.Nodes.Disrupting, "node", ""))
	}
	return s.Verdict.Again
}

// judge decides whether the next wave begins.
func (s WaveSeen) judge(w *v1alpha1.RolloutWave) time.Time {
	switch {
	case w.Begun < w.Size && w.Waiting > 0 && s.Nodes.Relaunched == 0: // Karpenter has given up a replacement
		w.State, w.ReplacedAt, w.NextAt, w.Message = v1alpha1.WaveOpen, nil, nil, ""
		return s.Verdict.Again
	case s.launches(w):
		w.ReplacedAt, w.NextAt = nil, nil
		w.Message = s.Verdict.Message
		return s.Verdict.Again
	case w.ReplacedAt == nil:
		now := s.timestamp()
		w.ReplacedAt = &now
	}
	at := w.ReplacedAt.Add(s.Policy.GetPause())
	limit := w.ReplacedAt.Add(max(s.Policy.GetPause(), s.Policy.GetInconclusiveAfter()))
	w.Message = s.Verdict.Message
	switch {
	case s.Continued:
		w.Continued = &v1alpha1.ContinuedWave{Number: w.Number, At: s.timestamp(), Reason: s.Reason}
		return s.next(w)
	case s.Now.Before(at):
		next := metav1.NewTime(at).Rfc3339Copy()
		w.NextAt = &next
		return earliest(at, s.Verdict.Again)
	case s.Verdict.State == judge.Good:
		return s.next(w)
	case s.Verdict.State == "":
		w.NextAt = nil // the workloads cannot be read
		return s.Verdict.Again
	case s.Now.Before(limit):
		w.NextAt = nil
		if s.Policy.OnInconclusive != v1alpha1.InconclusiveHold {
			next := metav1.NewTime(limit).Rfc3339Copy()
			w.NextAt = &next
		}
		return earliest(limit, s.Verdict.Again)
	case s.Policy.OnInconclusive == v1alpha1.InconclusiveHold:
		w.State, w.NextAt = v1alpha1.WaveHeld, nil
		return s.Verdict.Again
	}
	return s.next(w)
}

// next begins the wave after one that was judged: the first one if new nodes are outdated again without a commit.
func (s WaveSeen) next(w *v1alpha1.RolloutWave) time.Time {
	if s.Nodes.Relaunched > 0 {
		w.Number, w.Since = 0, s.timestamp()
		s.begin(w, max(s.Policy.Start, 1))
		return s.Now
	}
	s.begin(w, min(w.Size*max(s.Policy.Factor, 1), plan.MaxWave+1))
	return s.Now
}

// earliest returns the earlier of two times; zero is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// IsRecorded reports whether a wave is the recorded one, so that Karpenter may begin its replacements. It is not if the
// first wave begins again.
func IsRecorded(was, is *v1alpha1.RolloutWave) bool {
	return was != nil && was.State == is.State && was.Number == is.Number && was.BeganAt.Equal(&is.BeganAt)
}

// WaveBudget returns how many nodes of a pool Karpenter may be replacing at a time for a wave: as many as may still begin,
// although others may be in progress. Otherwise those that complete before plumbline looks again would let it begin more
// than the wave has. In the last wave only the budgets in Git limit that, until no node waits.
func WaveBudget(w *v1alpha1.RolloutWave) int {
	switch {
	case w.State == v1alpha1.WaveOpen:
		return max(0, int(w.Size-w.Begun))
	case w.State == v1alpha1.WaveLast && w.Waiting > 0:
		return plan.AllNodes
	}
	return 0
}
