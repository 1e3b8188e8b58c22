package reconcile

import (
	"context"

	"github.com/plumbline-dev/plumbline/reconcile/conclude"
)

// verdict is what the pass comes to.
func (p *pass) verdict() conclude.Verdict { return p.conclusion().Verdict() }

// summarize sets the conditions and the lists of the status.
func (p *pass) summarize(ctx context.Context) *conclude.Step {
	p.noteWithheld(ctx)
	step := p.conclusion()
	step.Redact()
	step.Summarize()
	return step
}
