package reconcile

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
func (p *pass) noteMutated() {
	planned := map[render.Ref]plan.Change{}
	next := mutated{}
	for _, c := range p.plan.Changes {
		planned[c.Ref] = c
		if known, ok := p.memory.mutated[c.Ref]; ok && p.stillMutated(c) != nil {
			next[c.Ref] = known
		}
	}
	for _, f := range p.applied.Failed {
		var changed *apply.MutatedError
		if errors.As(f.Err, &changed) {
			next[f.Ref] = mutation{written: planned[f.Ref].Object.Defaulted, generation: changed.Object.GetGeneration(), at: p.now, err: f.Err}
		}
	}
	p.memory.mutated = next
}

// stillMutated says why a Change is not written now: it was a moment ago, and something
// in the cluster has changed it. Nil where it is to be written.
func (p *pass) stillMutated(c plan.Change) error {
	known, ok := p.memory.mutated[c.Ref]
	switch {
	case !ok, c.Live == nil, p.insists():
		return nil
	case known.written != c.Object.Defaulted, known.generation != c.Live.GetGeneration(), !p.now.Before(known.at.Add(p.retryInterval())):
		return nil
	}
	p.WakeBy(known.at.Add(p.retryInterval()))
	return known.err
}

// attemptedNow says whether this pass has tried to write an object.
func (p *pass) attemptedNow(ref render.Ref) bool {
	return slices.ContainsFunc(p.applied.Failed, func(f apply.Failure) bool { return f.Ref == ref })
}
