package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/render"
)

// State is the result of a reconcile, in kstatus' sense.
type State int

// A State has one of these values, the most severe last.
const (
	Done     State = iota // as in Git
	Working               // in progress; a watch or a timer triggers the next reconcile
	Retrying              // failed, retried automatically
	Stuck                 // a person has to act
)

// Verdict is the result of a reconcile. The condition, the event and the commit status share its text, which does not
// change as long as nothing changes.
type Verdict struct {
	Class           State
	Reason, Message string
	// Brief is the message for a commit status, which is short; if it is empty, the status uses the
	// message.
	Brief fault.Brief
	// commitState is the state of the commit status if it differs from that of the Class: nothing is wrong with the
	// definitions, but the commit is not done.
	commitState report.State
	// ofNodes reports whether the verdict is about the nodes of a rollout: the definitions match Git.
	ofNodes bool
}

// Verdict returns the most severe result of what was found.
func (s *Step) Verdict() Verdict {
	switch {
	case s.Elsewhere:
		return Verdict{
			Class: Stuck, Reason: v1alpha1.ReasonNamespaceNotWatched,
			Message: fmt.Sprintf("NodeSyncs are served in namespace %s only: move it there", s.Namespace),
		}
	case s.openCollision() != "":
		return Verdict{Class: Stuck, Reason: v1alpha1.ReasonClusterNameCollision, Message: s.openCollision()}
	case s.Sync.Status.IdentityConflict.Open() && !s.Sync.DrainsNodes() && s.Sync.DeletionTimestamp.IsZero():
		return s.identityVerdict()
	case s.Fault != nil:
		return s.withPaused(verdictOf(s.Fault))
	case s.Unfetched != nil:
		return verdictOf(fault.Classify(s.Unfetched))
	}
	return s.foundVerdict()
}

// foundVerdict returns the verdict of a reconcile that has completed all steps, whether for the newest revision
// or not.
func (s *Step) foundVerdict() Verdict {
	status := s.Sync.Status
	switch {
	case s.NotUpgraded != nil:
		return s.withHeld(verdictOf(fault.Classify(fault.Several(append([]error{s.NotUpgraded}, fault.Apart(s.Unwritten)...)))))
	case s.Unwritten != nil:
		return s.withHeld(s.withCharts(verdictOf(fault.Classify(s.Unwritten)), ""))
	case len(stalled(status.Removals)) > 0:
		removals := stalled(status.Removals)
		return s.withController(s.withCharts(s.stalledVerdict(removals), firstName(removals)+": removal stalled"))
	case s.holds() && s.approvedNow() != nil:
		return s.approvedVerdict(s.approvedNow())
	case s.holds():
		held := heldRemovals(status.Removals)
		return s.withController(s.withCharts(s.withApproval(s.heldVerdict(held)), heldBrief(s.Held, held)))
	}
	return s.withRollout(s.stateVerdict())
}

// stateVerdict returns the verdict of a reconcile in which nothing failed.
func (s *Step) stateVerdict() Verdict {
	status := s.Sync.Status
	switch {
	case s.Applying > 0:
		return s.applying()
	case len(s.InUse) > 0:
		return s.classInUse(s.InUse[0])
	case s.chartsDiffer() != nil:
		return verdictOf(s.chartsDiffer())
	case s.RepeatedReverts != "":
		return s.repeatedReverts()
	case len(s.left()) > 0:
		return Verdict{
			Class: Stuck, Reason: v1alpha1.ReasonDrifted, Message: "differs from Git, and drift is Report: " + finding.SomeOf(s.left()),
		}
	case s.stalledWait() != nil:
		return stalledWaitVerdict(s.withClasses(*s.stalledWait()))
	case len(s.Waits) > 0:
		return waitingVerdict(s.withClasses(s.firstWait()))
	case s.Sync.Drained():
		return drainedVerdict(status.Removals)
	case status.OpenRemovals > 0:
		return Verdict{
			Class: Working, Reason: v1alpha1.ReasonRemoving, Message: s.describeRemovals(), Brief: briefOfRemovals(status.Removals, s.Commit),
		}
	}
	return s.doneVerdict()
}

// doneVerdict returns the verdict on a revision that is applied. Its commit status names a pool whose newest launch
// failed, and prefers one that has too few nodes: then the status is pending, and failure after spec.rollout.timeout,
// as in summary.StateOf. Ready does not depend on it, because the pods may fit elsewhere.
func (s *Step) doneVerdict() Verdict {
	v := Verdict{
		Class: Done, Reason: v1alpha1.ReasonSucceeded, Message: "applied, Ready, no removal open: " + render.ShortRevision(s.revision()),
	}
	failed := s.launchesFailed()
	if len(failed) == 0 {
		v.Brief = s.rescuedBrief()
		return v
	}
	if missing := s.launchesMissing(); len(missing) > 0 {
		first := missing[0]
		v.commitState, v.ofNodes, v.Brief = report.Pending, true, fault.Brief{What: "launch failing: " + s.missing(first.Pool), Cause: first.Why}
		if s.launchTimedOut() {
			v.commitState, v.Brief.What = report.Failure, fmt.Sprintf("not rolled out within %s: %s",
				s.Sync.Spec.Rollout.Timeout.Duration, s.missing(first.Pool))
		}
		return v
	}
	first := failed[0]
	v.Brief = fault.Brief{What: fmt.Sprintf("applied; the newest launch of %s/%s failed", render.NodePool, first.Pool), Cause: first.Why}
	return v
}

// applying reports the changes that are about to be written.
func (s *Step) applying() Verdict {
	words := fmt.Sprintf("applying %s of %s", english.Plural(s.Applying, "change", ""), render.ShortRevision(s.revision()))
	return Verdict{Class: Working, Reason: meta.ProgressingReason, Message: words, Brief: fault.Brief{What: words}}
}

func verdictOf(f *fault.Error) Verdict {
	v := Verdict{Class: Retrying, Reason: f.Reason, Message: f.Error(), Brief: f.Brief()}
	switch f.Class {
	case fault.Terminal:
		v.Class = Stuck
	case fault.Waiting, fault.Superseded:
		v.Class = Working
	case fault.Transient:
	}
	return v
}

// waitingVerdict names what the NodeSync waits for, once: most messages start with it.
func waitingVerdict(w finding.Wait) Verdict {
	v := Verdict{Class: Working, Reason: v1alpha1.ReasonWaiting, Message: "waiting for " + w.On}
	switch {
	case w.Message == "":
	case strings.HasPrefix(w.Message, w.On+" "), strings.HasPrefix(w.Message, w.On+":"):
		v.Message = "waiting: " + w.Message
	default:
		v.Message += ": " + w.Message
	}
	return v
}

// firstWait returns the wait to report: one that may not end by itself, or otherwise an object that was already waited
// for, as long as that lasts. Without this, the message would alternate if two waits come and go.
func (s *Step) firstWait() finding.Wait {
	first, before := s.Waits[0], s.Before.Status.Waiting
	if !isObject(first.On) {
		return first
	}
	if lasting := s.lastingWait(); lasting != nil {
		return *lasting
	}
	waits := s.classWaits()
	if len(waits) == 0 { // otherwise the pools wait for these
		waits = s.Waits
	}
	if before == nil {
		return waits[0]
	}
	if i := slices.IndexFunc(waits, func(w finding.Wait) bool { return w.On == before.For }); i >= 0 {
		return waits[i]
	}
	return waits[0]
}

// classWaits returns the waits for EC2NodeClasses.
func (s *Step) classWaits() []finding.Wait {
	return slices.DeleteFunc(slices.Clone(s.Waits), func(w finding.Wait) bool { return !strings.HasPrefix(w.On, render.EC2NodeClass+"/") })
}

// withClasses names all EC2NodeClasses that are waited for, if a wait is for one of several: each reason, followed by
// its classes.
func (s *Step) withClasses(w finding.Wait) finding.Wait {
	classes := s.classWaits()
	if len(classes) < 2 || !strings.HasPrefix(w.On, render.EC2NodeClass+"/") {
		return w
	}
	var reasons []string
	of := map[string][]string{}
	for _, c := range append([]finding.Wait{w}, classes...) {
		reason := strings.TrimPrefix(strings.TrimPrefix(c.Message, c.On), ": ")
		reason = strings.TrimSpace(strings.TrimPrefix(reason, " is not Ready: "))
		if of[reason] == nil {
			reasons = append(reasons, reason)
		}
		if !slices.Contains(of[reason], c.On) {
			of[reason] = append(of[reason], c.On)
		}
	}
	for i, reason := range reasons {
		reasons[i] = strings.TrimPrefix(reason+": "+finding.Some(of[reason]), ": ")
	}
	w.On, w.Message = fmt.Sprintf("%d %ses", len(classes), render.EC2NodeClass), finding.Few(reasons, "; ")
	return w
}

// isObject reports whether the wait is for an object, and not for a Stage, on which all objects depend.
func isObject(on string) bool { return strings.Contains(on, "/") }

// lastingWait returns the first wait that may not end by itself; nil if there is none.
func (s *Step) lastingWait() *finding.Wait {
	for i := range s.Waits {
		if !s.Waits[i].Since.IsZero() {
			return &s.Waits[i]
		}
	}
	return nil
}

// stalledWait returns the first wait that may not end by itself and has exceeded its time limit; nil
// if there is none.
func (s *Step) stalledWait() *finding.Wait {
	for i, w := range s.Waits {
		if !w.Stalls.IsZero() && !s.Began.Before(w.Stalls) {
			return &s.Waits[i]
		}
	}
	return nil
}

func stalledWaitVerdict(w finding.Wait) Verdict {
	v := waitingVerdict(w)
	v.Class, v.Reason, v.Message = Stuck, v1alpha1.ReasonStalled, "stalled: "+v.Message
	return v
}

// classInUse names what keeps a deleted class, and how to release it. A person has to do that
// from the start; the class counts as stalled after the same time as a removal.
func (s *Step) classInUse(u plan.InUse) Verdict {
	v := Verdict{Class: Retrying, Reason: v1alpha1.ReasonClassTerminating, Message: u.Message(), Brief: fault.Brief{What: u.Brief()}}
	if !s.Began.Before(u.Since.Add(s.Sync.GetStallAfter())) {
		v.Class = Stuck
	}
	return v
}

// revision returns the revision of this reconcile, or that of the last one.
func (s *Step) revision() string { return cmp.Or(s.Revision, s.Sync.Status.LastAttemptedRevision) }

// CommitState returns the verdict as the state of a commit status.
func (v Verdict) CommitState() report.State {
	if v.commitState != "" {
		return v.commitState
	}
	switch v.Class {
	case Done:
		return report.Success
	case Working:
		return report.Pending
	case Retrying, Stuck:
	}
	return report.Failure
}

// CommitText returns the verdict as the text of a commit status, the most important part first.
func (v Verdict) CommitText() string {
	switch {
	case v.Brief != fault.Brief{}:
		return v.Brief.String()
	case v.Class == Done:
		return "applied, Ready, no removal open, each node matches"
	}
	return fault.Brief{What: v.Message}.String()
}

// repeatedReverts returns the verdict on a conflict, until Git changes, the other client stops, or a person requests a
// reconcile.
func (s *Step) repeatedReverts() Verdict {
	return Verdict{
		Class: Stuck, Reason: v1alpha1.ReasonConflict,
		Message: fmt.Sprintf("%s: it was reverted 3 times within an hour; correction is paused: stop what changes it, or name the fields under ignoreDifferences in plumbline.yaml; plumbline reconcile %s corrects it again",
			s.RepeatedReverts, s.Sync.Name),
		Brief: fault.Brief{What: s.RepeatedReverts + ": reverted 3 times within an hour; correction is paused: stop what changes it, or use ignoreDifferences"},
	}
}

// openCollision returns the collision that this reconcile has found, or, if the reconcile
// stopped before it could check, the one from the last reconcile.
func (s *Step) openCollision() string {
	before := conditions.Get(s.Before, meta.ReadyCondition)
	if s.SawAccount || s.Fault == nil || before == nil || !s.Sync.DeletionTimestamp.IsZero() {
		return s.Collision
	}
	if before.Reason != v1alpha1.ReasonClusterNameCollision {
		return ""
	}
	return before.Message
}
