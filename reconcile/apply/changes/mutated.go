package changes

import (
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

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
// in the cluster has changed it. Nil where it is to be written.
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

// attemptedNow says whether this pass has tried to write an object.
func (s *Step) attemptedNow(ref render.Ref) bool {
	return slices.ContainsFunc(s.applied.Failed, func(f apply.Failure) bool { return f.Ref == ref })
}
