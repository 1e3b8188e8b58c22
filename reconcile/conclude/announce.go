package conclude

import (
	"context"

	"github.com/plumbline-dev/plumbline/reconcile/fault"
)

// Announce writes what a pass is about to do, where that takes long: until it ends, the
// status would go on saying Ready of the revision before. The conclusion writes over it.
// The error is the API server's; a conflict says that the pass goes by an old NodeSync.
func (s *Step) Announce(ctx context.Context) error {
	s.Redact()
	s.setConditions(s.Verdict())
	s.report(ctx)
	err := s.writeStatus(ctx)
	if fault.Unstorable(err) {
		return nil // the conclusion says so
	}
	return err
}
