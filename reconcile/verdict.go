package reconcile

import (
	"fmt"
	"strings"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
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
}

// verdict weighs what was found: the gravest speaks.
func (p *pass) verdict() verdict {
	s := p.sync.Status
	switch {
	case p.elsewhere:
		return verdict{stuck, v1alpha1.ReasonNamespaceNotWatched, fmt.Sprintf("NodeSyncs are served in namespace %s alone: move it there", p.Settings.Namespace)}
	case p.openCollision() != "":
		return verdict{stuck, v1alpha1.ReasonClusterNameCollision, p.openCollision()}
	case p.fault != nil:
		return verdictOf(p.fault)
	case p.unfetched != nil:
		return verdictOf(fault.Classify(p.unfetched))
	case p.notUpgraded != nil:
		return verdictOf(fault.Classify(several(append([]error{p.inForceWords()}, apart(p.unwritten)...))))
	case p.unwritten != nil:
		return verdictOf(fault.Classify(p.unwritten))
	case len(stalled(s.Removals)) > 0:
		r := stalled(s.Removals)[0]
		return verdict{stuck, v1alpha1.ReasonStalled, fmt.Sprintf("removal of %s stalled: %s", removalName(r), r.Message)}
	case len(p.held)+len(heldRemovals(s.Removals)) > 0:
		return verdict{stuck, v1alpha1.ReasonHeld, describeHeld(p.held, heldRemovals(s.Removals))}
	case p.unpulled != nil:
		return verdictOf(fault.Classify(fmt.Errorf("%w; the charts stay as they are installed, and definitions are applied", p.unpulled)))
	case p.unkept != nil:
		return verdictOf(fault.Classify(fmt.Errorf("%w; what the charts made is left as it is, and definitions are applied", p.unkept)))
	case len(p.fought) > 0:
		return p.fight()
	case len(p.drifted) > 0:
		return verdict{stuck, v1alpha1.ReasonDrifted, fmt.Sprintf("differs from Git, and drift is Report: %s", joinRefs(p.drifted))}
	case len(p.waits) > 0:
		return verdict{working, v1alpha1.ReasonWaiting, fmt.Sprintf("waiting for %s: %s", p.waits[0].on, p.waits[0].message)}
	case s.OpenRemovals > 0:
		return verdict{working, v1alpha1.ReasonRemoving, describeRemovals(s.Removals)}
	}
	return verdict{done, v1alpha1.ReasonSucceeded, "applied, Ready, no removal open: " + render.ShortRevision(p.revision())}
}

func verdictOf(f *fault.Error) verdict {
	v := verdict{retrying, f.Reason, f.Error()}
	switch f.Class {
	case fault.Terminal:
		v.class = stuck
	case fault.Waiting, fault.Superseded:
		v.class = working
	case fault.Transient:
	}
	return v
}

func (p *pass) revision() string {
	if p.snapshot == nil {
		return p.sync.Status.LastAttemptedRevision
	}
	return p.snapshot.Revision
}

func removalName(r v1alpha1.Removal) string { return r.Kind + "/" + r.Name }

func stalled(removals []v1alpha1.Removal) []v1alpha1.Removal {
	return filter(removals, func(r v1alpha1.Removal) bool { return r.Stalled != nil })
}

func heldRemovals(removals []v1alpha1.Removal) []v1alpha1.Removal {
	return filter(removals, func(r v1alpha1.Removal) bool { return r.Phase == v1alpha1.RemovalHeld })
}

func filter(removals []v1alpha1.Removal, keep func(v1alpha1.Removal) bool) []v1alpha1.Removal {
	var kept []v1alpha1.Removal
	for _, r := range removals {
		if keep(r) {
			kept = append(kept, r)
		}
	}
	return kept
}

// describeHeld names what is held and what releases it.
func describeHeld(changes []plan.Change, removals []v1alpha1.Removal) string {
	changed, left := make([]string, 0, len(changes)), make([]string, 0, len(removals))
	for _, c := range changes {
		changed = append(changed, c.Ref.String())
	}
	for _, r := range removals {
		left = append(left, removalName(r))
	}
	switch {
	case len(changes) == 0:
		return fmt.Sprintf("held: removal of %s: %s", someOf(left), removals[0].Message)
	case len(removals) == 0:
		return fmt.Sprintf("held: change of %s: %s", someOf(changed), changes[0].Message)
	}
	return fmt.Sprintf("held: change of %s, removal of %s: %s", someOf(changed), someOf(left), changes[0].Message)
}

// describeRemovals names what leaves and how far each has come.
func describeRemovals(removals []v1alpha1.Removal) string {
	parts := make([]string, 0, maxNamed)
	for _, r := range removals[:min(len(removals), maxNamed)] {
		part := fmt.Sprintf("%s %s", removalName(r), r.Phase)
		if r.Message != "" {
			part += " (" + r.Message + ")"
		}
		parts = append(parts, part)
	}
	text := "removing " + strings.Join(parts, ", ")
	if more := len(removals) - len(parts); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
