package upgrade

import (
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade/installtest"
)

// TestWhatIsServedSinceIsReadFirst checks that a reconcile whose kinds are served again does not use its earlier plan:
// in that plan all live objects would be new, including those of others.
func TestWhatIsServedSinceIsReadFirst(t *testing.T) {
	for name, take := range map[string]func(*Step) (Installed, error){
		"installed": func(s *Step) (Installed, error) { s.Charts = nil; return s.Run(t.Context()) },
		"in force":  func(s *Step) (Installed, error) { return s.Serve(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, installtest.Installed()...)
			s := b.step()
			if got, err := take(s); err != nil || !got.CRDs.Ready {
				t.Fatalf("what was served: %+v, %v", got.CRDs, err)
			}
			s = b.step()
			s.Live = plan.Live{}
			got, err := take(s)
			if err != nil || got.CRDs.Ready || got.CRDs.Message == "" || !s.WakeAt.Equal(b.now) {
				t.Errorf("what is served since: %+v, %v, again at %s", got.CRDs, err, s.WakeAt)
			}
		})
	}
}
