package conclude

import "context"

// manyWrites is from how many changes on they are announced, since fewer are written at once. Each announcement costs a
// write of the status and a pending commit status.
const manyWrites = 8

// Many says that a number of changes takes long to write.
func Many(writes int) bool { return writes > manyWrites }

// Announce writes what a pass is about to do, where that takes long: until it ends, the
// status would go on saying Ready of the revision before. The conclusion writes over it.
// The error is the API server's; a conflict says that the pass goes by an old NodeSync.
func (s *Step) Announce(ctx context.Context) error {
	s.Redact()
	s.SawRollout = s.Sync.Status.Rollout != nil // one that begins is recorded
	s.setConditions(s.Verdict())
	s.report(ctx)
	err := s.writeStatus(ctx)
	if denied(err) {
		return nil // the conclusion says so
	}
	return err
}
