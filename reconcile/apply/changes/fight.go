package changes

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

const (
	// mostReverts is how often edits of an object are reverted within fightLasts of each
	// other. Then another controller makes them, and each round may replace nodes.
	mostReverts = 3
	// fightLasts is how long the object is left as it is then.
	fightLasts = time.Hour
)

// fights are the objects whose edits were reverted.
type fights map[render.Ref]reverts

// reverts are how often edits of one object were reverted, and when last.
type reverts struct {
	times int
	last  time.Time
}

// over says that what was counted does not count any more. A time that lies ahead is one of
// before the clock was put back.
func (r reverts) over(now time.Time) bool {
	quiet := fightLasts
	if r.times >= mostReverts {
		quiet *= 2 // an hour of it the object was left as it is
	}
	return now.Before(r.last) || now.Sub(r.last) >= quiet
}

// costsNodes says whether a Change corrects an edit by which nodes come and go: Karpenter
// replaces nodes that are unlike the template of their pool, or unlike their class.
func costsNodes(c plan.Change) bool {
	if !c.Drift || c.Action != plan.Update {
		return false
	}
	for _, f := range c.Fields {
		switch {
		case c.Ref.Kind == render.EC2NodeClass && strings.HasPrefix(f.Path, "spec."),
			strings.HasPrefix(f.Path, "spec.template."), f.Path == "spec.replicas":
			return true
		}
	}
	return false
}

// noteReverts counts the edits that this pass has reverted.
func (s *Step) noteReverts() {
	planned := map[render.Ref]plan.Change{}
	for _, c := range s.Plan.Changes {
		planned[c.Ref] = c
	}
	next := fights{}
	for ref, r := range s.Memory.fights {
		if !r.over(s.Now) { // also while a pass finds nothing to correct
			next[ref] = r
		}
	}
	for _, w := range s.applied.Written {
		switch c := planned[w.Ref]; {
		case costsNodes(c):
			next[w.Ref] = reverts{times: next[w.Ref].times + 1, last: s.Now}
		case !c.Drift:
			delete(next, w.Ref) // Git has another object by now
		}
	}
	s.Memory.fights = next
}

// fought says why an edit is left as it is: it was reverted again and again. Nil where it is
// corrected.
func (s *Step) fought(c plan.Change) error {
	r, known := s.Memory.fights[c.Ref]
	if !known || s.Insist || r.times < mostReverts || r.over(s.Now) || !costsNodes(c) {
		return nil
	}
	until := r.last.Add(fightLasts)
	if !s.Now.Before(until) {
		return nil
	}
	s.WakeBy(until)
	return &apply.FoughtError{Ref: c.Ref, Fields: c.Fields, Editors: c.Editors, Times: mostReverts}
}

// onlyFought says of what could not be written that it is only that: the revision stands in
// the cluster all the same, since another client has changed it later.
func onlyFought(unwritten error) bool {
	return !slices.ContainsFunc(fault.Apart(unwritten), func(err error) bool { return !errors.As(err, new(*apply.FoughtError)) })
}
