package reconcile

import (
	"fmt"
	"strings"

	"github.com/plumbline-dev/plumbline/provision/charts/survey"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/render"
)

// state is what a pass comes to, in kstatus' sense.
type state int

const (
	done     state = iota // as Git says
	working               // on the way; a watch or a time wakes us
	retrying              // went wrong, tried again by itself
	stuck                 // a person has to do something
)

// verdict is what a pass comes to, in the words that the condition, the event
// and the commit status share. No word in it changes while nothing changes.
type verdict struct {
	class           state
	reason, message string
	// brief is the message for a commit status, which holds little; the message
	// itself where there is none.
	brief fault.Brief
	// nodeless says that a pool of Git launches no node and has none: nothing is wrong
	// with the definitions, and the commit is not done all the same.
	nodeless bool
}

// verdict weighs what was found: the gravest speaks.
func (p *pass) verdict() verdict {
	s := p.sync.Status
	switch {
	case p.elsewhere:
		return verdict{class: stuck, reason: v1alpha1.ReasonNamespaceNotWatched, message: fmt.Sprintf("NodeSyncs are served in namespace %s only: move it there", p.Settings.Namespace)}
	case p.openCollision() != "":
		return verdict{class: stuck, reason: v1alpha1.ReasonClusterNameCollision, message: p.openCollision()}
	case p.fault != nil:
		return verdictOf(p.fault)
	case p.unfetched != nil:
		return verdictOf(fault.Classify(p.unfetched))
	case p.notUpgraded != nil:
		return verdictOf(fault.Classify(fault.Several(append([]error{p.inForceWords()}, fault.Apart(p.unwritten)...))))
	case p.unwritten != nil:
		return verdictOf(fault.Classify(p.unwritten))
	case len(stalled(s.Removals)) > 0:
		return stalledVerdict(stalled(s.Removals))
	case len(p.held)+len(heldRemovals(s.Removals)) > 0:
		return heldVerdict(p.held, heldRemovals(s.Removals))
	}
	return p.stateVerdict()
}

// stateVerdict weighs what was found by a pass in which nothing failed.
func (p *pass) stateVerdict() verdict {
	s := p.sync.Status
	switch {
	case p.plan.Plan != nil && len(p.plan.InUse) > 0:
		return p.classInUse(p.plan.InUse[0])
	case p.want.Unpulled != nil:
		return verdictOf(fault.Classify(fmt.Errorf("%w; the charts stay as they are installed, and definitions are applied", p.want.Unpulled)))
	case p.stages.Unkept != nil:
		return verdictOf(fault.Classify(fmt.Errorf("%w; what the charts made is left as it is, and definitions are applied", p.stages.Unkept)))
	case len(p.stages.Fought) > 0:
		return p.fight()
	case len(p.drifted) > 0:
		return verdict{class: stuck, reason: v1alpha1.ReasonDrifted, message: fmt.Sprintf("differs from Git, and drift is Report: %s", finding.SomeOf(p.drifted))}
	case len(p.Waits) > 0:
		return waitingVerdict(p.Waits[0])
	case s.OpenRemovals > 0:
		return verdict{class: working, reason: v1alpha1.ReasonRemoving, message: describeRemovals(s.Removals), brief: briefOfRemovals(s.Removals)}
	}
	return p.doneVerdict()
}

// doneVerdict says that all is applied, and in a commit status which pool launches no
// node: Ready does not hang on it, as its pods may fit elsewhere.
func (p *pass) doneVerdict() verdict {
	v := verdict{class: done, reason: v1alpha1.ReasonSucceeded, message: "applied, Ready, no removal open: " + render.ShortRevision(p.revision())}
	if len(p.launchless) == 0 {
		return v
	}
	has := map[string]bool{}
	for i := range p.live.NodeClaims {
		if claim := &p.live.NodeClaims[i]; claim.Node != "" && !claim.Deleting {
			has[claim.Pool] = true
		}
	}
	first := p.launchless[0]
	for _, l := range p.launchless {
		if !has[l.Pool] {
			first, v.nodeless = l, true
			break
		}
	}
	v.brief = fault.Brief{What: fmt.Sprintf("applied; %s/%s launches no node", render.NodePool, first.Pool), Cause: first.Why}
	return v
}

func verdictOf(f *fault.Error) verdict {
	v := verdict{class: retrying, reason: f.Reason, message: f.Error(), brief: f.Brief()}
	switch f.Class {
	case fault.Terminal:
		v.class = stuck
	case fault.Waiting, fault.Superseded:
		v.class = working
	case fault.Transient:
	}
	return v
}

// waitingVerdict says what is waited for, once: most messages begin with it.
func waitingVerdict(w finding.Wait) verdict {
	v := verdict{class: working, reason: v1alpha1.ReasonWaiting, message: "waiting for " + w.On}
	switch {
	case w.Message == "":
	case strings.HasPrefix(w.Message, w.On+" "), strings.HasPrefix(w.Message, w.On+":"):
		v.message = "waiting: " + w.Message
	default:
		v.message += ": " + w.Message
	}
	return v
}

// classInUse says who keeps a class that was deleted, and the way out. It is a person's
// to take from the start; it counts as stalled after as long as a removal does.
func (p *pass) classInUse(u plan.InUse) verdict {
	v := verdict{class: retrying, reason: v1alpha1.ReasonClassTerminating, message: u.Message(), brief: fault.Brief{What: u.Brief()}}
	if !p.now.Before(u.Since.Add(p.stallAfter())) {
		v.class = stuck
	}
	return v
}

func (p *pass) revision() string {
	if p.snapshot == nil {
		return p.sync.Status.LastAttemptedRevision
	}
	return p.snapshot.Revision
}

// commitState is the verdict as a commit status.
func (v verdict) commitState() report.State {
	switch v.class {
	case done:
		if v.nodeless {
			return report.Pending
		}
		return report.Success
	case working:
		return report.Pending
	case retrying, stuck:
	}
	return report.Failure
}

// commitText is the verdict for a commit status, the most important first.
func (v verdict) commitText() string {
	switch {
	case v.brief != fault.Brief{}:
		return v.brief.String()
	case v.class == done:
		return "applied, Ready, no removal open; node rollouts are not tracked yet"
	}
	return fault.Brief{What: v.message}.String()
}

// fight is what is said of it until Git changes, the fight ends, or a person asks.
func (p *pass) fight() verdict {
	moved := survey.Drifts(p.stages.Fought)
	return verdict{
		class: stuck, reason: v1alpha1.ReasonConflict,
		message: fmt.Sprintf("%s: it was corrected again and again, and is left as it is now: stop what changes it, or name the fields under ignoreDifferences in plumbline.yaml; plumbline reconcile %s corrects it once more",
			moved, p.sync.Name),
		brief: fault.Brief{What: moved + ": corrected again and again, left as it is now: stop what changes it, or use ignoreDifferences"},
	}
}
