package desired

import "context"

// Prepare does what takes a first pass longest, while that pass still has to wait for what lives in
// the cluster: it compiles the schema and renders. What it leaves is what sources render to,
// which the pass takes where they have not changed, by a schema that has not changed; all else
// the pass finds by itself. It does so once, and writes nothing.
func (s *Step) Prepare(ctx context.Context) error {
	if s.Memory.prepared || s.Memory.Set != nil {
		return nil
	}
	s.Memory.prepared = true
	if err := s.Configure(ctx); err != nil {
		return err
	}
	if err := s.Resolve(ctx); err != nil {
		return err
	}
	if s.Charts != nil {
		if err := s.TakeSchema(ctx); err != nil {
			return err
		}
	}
	_, err := s.renderAll(ctx)
	return s.tooSlow(s.renderKey(), err)
}
