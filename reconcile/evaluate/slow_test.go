package evaluate

import (
	"errors"
	"testing"
	"testing/fstest"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/render"
)

// TestACommitThatTakesTooLongIsNotRenderedAgain for a while, unless it changes or a person requests a reconcile.
func TestACommitThatTakesTooLongIsNotRenderedAgain(t *testing.T) {
	b := newBed(t, desiredNodeSync(desiredUnchanged))
	at := func(revision, attempt string) (*DesiredStep, renderKey) {
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

// TestACommitThatIsSlowToReadIsNotReadAgain for a while; the next commit is, at once.
func TestACommitThatIsSlowToReadIsNotReadAgain(t *testing.T) {
	b := newBed(t, desiredNodeSync(desiredUnchanged))
	good := fstest.MapFS{"prod/plumbline.yaml": {Data: []byte("apiVersion: config.plumbline.dev/v1alpha1\nkind: Karpenter\ncluster: {name: c, region: eu-west-1}\nmanagement: External\n")}}
	at := func(commit string, limit time.Duration) *DesiredStep {
		s := b.step()
		within := render.Snapshot{Revision: "main@sha1:" + commit, Commit: commit, FS: good}.Within(t.Context(), s.Sync.Spec.Path, limit)
		s.Snapshot = &within
		return s
	}
	configure := func(s *DesiredStep) error { return s.Configure(t.Context()) }
	takes := map[string]func(*DesiredStep) error{"plumbline.yaml": configure, "what the last render has read": func(s *DesiredStep) error {
		s.Memory.Set, s.Memory.renderedBy = &render.Set{Commit: "0", Inputs: render.Inputs{"prod/plumbline.yaml": "other"}}, s.readKey()
		return s.makeSet(t.Context())
	}}
	for name, take := range takes {
		t.Run(name, func(t *testing.T) {
			b.memory = DesiredMemory{}
			if err := take(at("1", -1)); !errors.As(err, new(*render.SlowError)) {
				t.Fatalf("it is read for ever: %v", err)
			}
			if err := configure(at("1", time.Hour)); !errors.As(err, new(*render.SlowError)) {
				t.Errorf("it is read again: %v", err)
			}
			if err := configure(at("2", time.Hour)); err != nil {
				t.Errorf("the next commit: %v", err)
			}
		})
	}
}
