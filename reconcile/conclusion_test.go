package reconcile

import (
	"context"

	"github.com/plumbline-dev/plumbline/reconcile/status"
)

// verdict returns the result of the reconcile.
func (p *pass) verdict() status.Verdict { return p.conclusion().Verdict() }

// summarize sets the conditions and the lists of the status.
func (p *pass) summarize(ctx context.Context) *status.Step {
	if p.plan.Plan != nil && p.snapshot != nil {
		p.plan.Note(ctx, p.sync, p.removalStep().Relabelled)
	}
	step := p.conclusion()
	step.Redact()
	step.Summarize()
	return step
}
