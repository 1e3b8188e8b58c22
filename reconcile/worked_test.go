package reconcile

import (
	"context"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/step"
)

// TestWritesDoNotCountAsWork: a reconcile that writes thousands of objects does not hold back the next one, which
// reports them.
func TestWritesDoNotCountAsWork(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	p := b.pass()
	for name, takes := range map[step.Name]time.Duration{step.MakePlan: 300 * time.Millisecond, step.ApplyPlan: 20 * time.Second, step.Observe: 200 * time.Millisecond} {
		if _, err := step.Take(t.Context(), p.trace, name, func(context.Context) (done, error) {
			b.clock.forward(takes)
			return done{}, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := p.worked(), 500*time.Millisecond; got != want {
		t.Errorf("it worked for %s, want %s", got, want)
	}
}
