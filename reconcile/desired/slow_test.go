package desired

import (
	"errors"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/render"
)

// TestACommitThatTakesTooLongIsNotRenderedAgain for a while, unless it changes or a person
// asks.
func TestACommitThatTakesTooLongIsNotRenderedAgain(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	at := func(revision, attempt string) (*Step, renderKey) {
		s := b.step()
		s.Snapshot, s.Attempt = &render.Snapshot{Revision: revision}, attempt
		return s, renderKey{path: s.Sync.Spec.Path}
	}
	s, key := at("main@sha1:1", "1")
	other := errors.New("odd")
	if err := s.tooSlow(key, other); !errors.Is(err, other) || b.memory.slow.err != nil {
		t.Fatalf("another error: %v", err)
	}
	err := s.tooSlow(key, &render.SlowError{Path: "./prod", Limit: time.Minute})
	if f := fault.Classify(err); f.Class != fault.Terminal {
		t.Errorf("it is %s", f.Class)
	}
	if again, _ := at("main@sha1:1", "1"); !errors.Is(again.makeSet(t.Context()), err) {
		t.Error("the same commit is rendered again")
	}
	for name, c := range map[string]struct{ revision, attempt string }{"another commit": {"main@sha1:2", "1"}, "a person asks": {"main@sha1:1", "2"}} {
		if now, key := at(c.revision, c.attempt); b.memory.slow.attempt == now.attemptAt(key) {
			t.Errorf("%s: it is not rendered", name)
		}
	}
}
