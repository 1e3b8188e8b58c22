package upgrade

import (
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade/installtest"
)

// TestWhatIsServedSinceIsReadFirst: a reconcile that has its kinds served again has not seen what
// lives of them. To a plan made before all of it would be new, and another's as well.
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
