package reconcile

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/plumbline-dev/plumbline/render"
)

// render makes the Set. Where a change of the charts is not made, definitions that
// need it wait for it.
func (p *pass) render(ctx context.Context) error {
	return p.withheld(p.makeSet(ctx))
}

// makeSet renders, or takes the last Set where none of its inputs changed.
func (p *pass) makeSet(ctx context.Context) error {
	key := renderKey{schema: p.schemaIdentity, older: p.older, path: p.sync.Spec.Path}
	if last := p.memory.set; last != nil && p.memory.renderedBy == key {
		unchanged, err := p.inputsUnchanged(last)
		if err != nil {
			return err
		}
		if unchanged {
			set := *last
			set.Revision, set.Commit = p.snapshot.Revision, p.snapshot.Commit
			p.set = &set
			p.rendered(&set)
			return nil
		}
	}
	if p.older != nil {
		if _, err := render.Render(ctx, *p.snapshot, p.sync.Spec.Path, p.karpenter, p.older, render.WithConfinement(p.Confine)); err != nil {
			return err
		}
	}
	set, err := render.Render(ctx, *p.snapshot, p.sync.Spec.Path, p.karpenter, p.schema, render.WithCache(&p.memory.rendered), render.WithValues(p.Values), render.WithInputs(p.files.Inputs()), render.WithConfinement(p.Confine))
	if err != nil {
		return err
	}
	ctrl.LoggerFrom(ctx).V(1).Info("rendered", "revision", p.snapshot.Revision, "objects", len(set.Objects))
	for _, warning := range set.Warnings {
		p.Warn("Warning", warning)
	}
	p.set = set
	p.rendered(set)
	p.memory.renderedBy = key
	return nil
}

// inputsUnchanged says whether a render would read what the last one has read.
// The files of one commit need no look.
func (p *pass) inputsUnchanged(last *render.Set) (bool, error) {
	if last.Commit != "" && last.Commit == p.snapshot.Commit {
		return true, nil
	}
	return last.Inputs.Unchanged(*p.snapshot)
}
