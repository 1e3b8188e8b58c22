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
	// maxReverts is how many edits of an object are reverted within correctionPause of each other. After that, another
	// controller is assumed to make them, and each round may replace nodes.
	maxReverts = 3
	// correctionPause is how long the object is then left unchanged.
	correctionPause = time.Hour
)

// repeatedReverts are the objects whose edits were reverted.
type repeatedReverts map[render.Ref]reverts

// reverts is how many edits of one object were reverted, and when the last was.
type reverts struct {
	times int
	last  time.Time
}

// over reports whether the count has expired. A time in the future means that the clock was set back.
func (r reverts) over(now time.Time) bool {
	quiet := correctionPause
	if r.times >= maxReverts {
		quiet *= 2 // for one hour of it the object was left unchanged
	}
	return now.Before(r.last) || now.Sub(r.last) >= quiet
}

// costsNodes reports whether a Change corrects an edit that replaces nodes: Karpenter replaces nodes that differ from
// the template of their pool, or from their class.
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
	next := repeatedReverts{}
	for ref, r := range s.Memory.reverts {
		if !r.over(s.Now) { // even if a reconcile finds nothing to correct
			next[ref] = r
		}
	}
	for _, w := range s.applied.Written {
		switch c := planned[w.Ref]; {
		case costsNodes(c):
			next[w.Ref] = reverts{times: next[w.Ref].times + 1, last: s.Now}
		case !c.Drift:
			delete(next, w.Ref) // the object in Git has changed
		}
	}
	s.Memory.reverts = next
}

// correctionPaused returns why an edit is left unchanged: it was reverted repeatedly. It is nil if the edit is
// corrected.
func (s *Step) correctionPaused(c plan.Change) error {
	r, known := s.Memory.reverts[c.Ref]
	if !known || s.Requested || r.times < maxReverts || r.over(s.Now) || !costsNodes(c) {
		return nil
	}
	until := r.last.Add(correctionPause)
	if !s.Now.Before(until) {
		return nil
	}
	s.WakeBy(until)
	return &apply.RepeatedRevertError{Ref: c.Ref, Fields: c.Fields, Editors: c.Editors, Times: maxReverts}
}

// onlyPausedCorrections reports whether all errors are RepeatedRevertErrors: the revision is still applied, because
// another client made its changes later.
func onlyPausedCorrections(unwritten error) bool {
	return !slices.ContainsFunc(fault.Apart(unwritten), func(err error) bool { return !errors.As(err, new(*apply.RepeatedRevertError)) })
}

// mutated are the objects that a webhook or policy of the cluster changes at each write.
type mutated map[render.Ref]mutation

// mutation is what was written, the resulting generation, and when.
type mutation struct {
	written    *unstructured.Unstructured
	generation int64
	at         time.Time
	err        error
}

// noteMutated records objects that differ after the write. They are not written again within the retry interval, as
// long as neither Git nor the object changes.
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

// stillMutated returns why a Change is not written now: it was written a moment ago, and something in the cluster has
// changed it. It is nil if the Change should be written.
func (s *Step) stillMutated(c plan.Change) error {
	known, ok := s.Memory.mutated[c.Ref]
	switch {
	case !ok, c.Live == nil, s.Requested:
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

// forms are the definitions of a Set, with the schema's defaults, as each was last in the cluster.
type forms struct {
	// objects are those of the Set. A commit that changes none of them renders to the same slice.
	objects []render.Object
	of      map[render.Ref]*unstructured.Unstructured
	// behind are those of the Set that do not match Git in the cluster.
	behind map[render.Ref]bool
}

// Forms returns the definitions in the last state in which they matched Git in the cluster.
func (m *Memory) Forms() map[render.Ref]*unstructured.Unstructured { return m.forms.of }

// noteForms records each definition that matches Git in the cluster, or did until another controller changed it. For a
// known Set, the cost depends on the number of differences, not on the size of the Set.
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
	for _, f := range s.applied.Failed {
		if behind[f.Ref] { // it may have been written, with or without changes by the cluster
			delete(s.Memory.forms.of, f.Ref)
		}
	}
}

// next returns the forms after a reconcile of a Set, of which some are behind.
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

// over returns the forms after the first reconcile of a Set.
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
