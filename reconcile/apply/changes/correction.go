package changes

import (
	"errors"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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

// over reports whether what was counted does not count any more. A time that lies ahead is one of
// before the clock was put back.
func (r reverts) over(now time.Time) bool {
	quiet := fightLasts
	if r.times >= mostReverts {
		quiet *= 2 // an hour of it the object was left as it is
	}
	return now.Before(r.last) || now.Sub(r.last) >= quiet
}

// costsNodes reports whether a Change corrects an edit by which nodes come and go: Karpenter
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

// noteReverts counts the edits that this reconcile has reverted.
func (s *Step) noteReverts() {
	planned := map[render.Ref]plan.Change{}
	for _, c := range s.Plan.Changes {
		planned[c.Ref] = c
	}
	next := fights{}
	for ref, r := range s.Memory.fights {
		if !r.over(s.Now) { // also while a reconcile finds nothing to correct
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

// fought says why an edit is left as it is: it was reverted again and again. Nil if it is
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

// mutated are the objects that a webhook or policy of the cluster changes at each write.
type mutated map[render.Ref]mutation

// mutation is what was written, what came back, and when.
type mutation struct {
	written    *unstructured.Unstructured
	generation int64
	at         time.Time
	err        error
}

// noteMutated notes what came back otherwise than it was written. It is not written again
// before the retry interval is over, as long as neither Git nor the object changes.
func (s *Step) noteMutated() {
	planned := map[render.Ref]plan.Change{}
	next := mutated{}
	for _, c := range s.Plan.Changes {
		planned[c.Ref] = c
		if known, ok := s.Memory.mutated[c.Ref]; ok && s.stillMutated(c) != nil {
			next[c.Ref] = known
		}
	}
	for _, f := range s.applied.Failed {
		var changed *apply.MutatedError
		if errors.As(f.Err, &changed) {
			next[f.Ref] = mutation{written: planned[f.Ref].Object.Defaulted, generation: changed.Object.GetGeneration(), at: s.Now, err: f.Err}
		}
	}
	s.Memory.mutated = next
}

// stillMutated says why a Change is not written now: it was a moment ago, and something
// in the cluster has changed it. Nil if it is to be written.
func (s *Step) stillMutated(c plan.Change) error {
	known, ok := s.Memory.mutated[c.Ref]
	switch {
	case !ok, c.Live == nil, s.Insist:
		return nil
	case known.written != c.Object.Defaulted, known.generation != c.Live.GetGeneration(), !s.Now.Before(known.at.Add(s.Retry)):
		return nil
	}
	s.WakeBy(known.at.Add(s.Retry))
	return known.err
}

// attemptedNow reports whether this reconcile has tried to write an object.
func (s *Step) attemptedNow(ref render.Ref) bool {
	return slices.ContainsFunc(s.applied.Failed, func(f apply.Failure) bool { return f.Ref == ref })
}

// forms are the definitions of a Set, with the schema's defaults, as each was in the
// cluster last.
type forms struct {
	// objects are the Set's. A commit that changes none of them renders to the same
	// slice.
	objects []render.Object
	of      map[render.Ref]*unstructured.Unstructured
	// behind are those of the Set that are not in the cluster as Git has them.
	behind map[render.Ref]bool
}

// Forms are the definitions that are, or were last, in the cluster as Git has them.
func (m *Memory) Forms() map[render.Ref]*unstructured.Unstructured { return m.forms.of }

// noteForms notes each definition that is in the cluster as Git has it now, or was
// until another controller changed it. For a Set that was noted before, it costs what
// differs, not what the Set has.
func (s *Step) noteForms() {
	behind := map[render.Ref]bool{}
	for i := range s.Plan.Changes {
		if !s.Plan.Changes[i].Drift {
			behind[s.Plan.Changes[i].Ref] = true
		}
	}
	for _, w := range s.applied.Written {
		delete(behind, w.Ref)
	}
	s.Memory.forms = s.Memory.forms.next(s.Set, behind)
}

// next are the forms after a reconcile over a Set, of which some are behind.
func (f forms) next(set *render.Set, behind map[render.Ref]bool) forms {
	if len(set.Objects) == 0 || len(f.objects) != len(set.Objects) || &f.objects[0] != &set.Objects[0] {
		return f.over(set, behind)
	}
	if len(f.behind) == 0 {
		f.behind = behind
		return f
	}
	for _, object := range set.Objects {
		if f.behind[object.Ref] && !behind[object.Ref] {
			f.of[object.Ref] = object.Defaulted
		}
	}
	f.behind = behind
	return f
}

// over are the forms after the first pass over a Set.
func (f forms) over(set *render.Set, behind map[render.Ref]bool) forms {
	next := forms{objects: set.Objects, of: make(map[render.Ref]*unstructured.Unstructured, len(set.Objects)), behind: behind}
	for _, object := range set.Objects {
		if !behind[object.Ref] {
			next.of[object.Ref] = object.Defaulted
		} else if last, known := f.of[object.Ref]; known {
			next.of[object.Ref] = last
		}
	}
	return next
}
