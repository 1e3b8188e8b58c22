package reconcile

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// TestOneRepositoryLeavesAWorker: its passes are as many as there are workers, less one.
func TestOneRepositoryLeavesAWorker(t *testing.T) {
	who := types.NamespacedName{Namespace: namespace, Name: "prod"}
	for name, c := range map[string]struct{ workers, want int }{"four workers": {4, 3}, "two workers": {2, 1}, "one worker": {1, 1}} {
		t.Run(name, func(t *testing.T) {
			var l lanes
			l.among(c.workers)
			for range c.want {
				if !l.enter("heavy", who) {
					t.Fatalf("fewer than %d passes of one repository", c.want)
				}
			}
			if l.enter("heavy", who) {
				t.Errorf("more than %d passes of one repository", c.want)
			}
			if !l.enter("light", who) {
				t.Error("no pass of another repository")
			}
			if next, waits := l.leave("heavy"); !waits || next != who {
				t.Errorf("%v is next, %t, want %v", next, waits, who)
			}
			if !l.enter("heavy", who) {
				t.Error("no pass after one has ended")
			}
		})
	}
}

// TestHeavyRepositoriesLeaveAWorker: all of them together have the workers less one, and the
// NodeSync that waits longest is woken, of whichever repository it is.
func TestHeavyRepositoriesLeaveAWorker(t *testing.T) {
	who := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: namespace, Name: name} }
	heavy := map[string]bool{"a": true, "b": true}
	l := lanes{heavy: func(repository string) bool { return heavy[repository] }}
	l.among(4)
	enter := func(repository, name string, want bool) {
		t.Helper()
		if got := l.enter(repository, who(name)); got != want {
			t.Errorf("%s of %s has begun: %t, want %t", name, repository, got, want)
		}
	}
	enter("a", "a1", true)
	enter("a", "a2", true)
	enter("b", "b1", true)
	enter("b", "b2", false)
	enter("a", "a3", false)
	enter("b", "b2", false)
	enter("c", "c1", true)
	if next, waits := l.leave("c"); waits {
		t.Errorf("%v is woken for a worker that is not for it", next)
	}
	for _, want := range []string{"b2", "a3"} {
		if next, waits := l.leave("a"); !waits || next != who(want) {
			t.Errorf("%v is next, %t, want %s", next, waits, want)
		}
	}
	if next, waits := l.leave("b"); waits {
		t.Errorf("%v is woken a second time", next)
	}
	delete(heavy, "b")
	enter("a", "a1", true)
	enter("a", "a2", true)
	enter("a", "a3", true)
	enter("b", "b1", true)
}

// TestAPassWithoutALaneIsWoken, once, when there is one, and has done nothing until then.
func TestAPassWithoutALaneIsWoken(t *testing.T) {
	const repository = "https://git.example.com/acme/fleet.git"
	b := newBed(t, nodeSync(unchanged))
	b.lanes.among(2)
	b.waker.events = make(chan event.GenericEvent, 2)
	b.lanes.enter(repository, types.NamespacedName{Name: "other"})
	before := *b.patches
	for range 2 {
		if got := b.reconcile(); got.RequeueAfter != crowded || *b.patches != before || len(b.source.requests) > 0 {
			t.Errorf("tried again after %s, want %s, with %d patches and %d fetches, want none", got.RequeueAfter, crowded, *b.patches-before, len(b.source.requests))
		}
	}
	b.endLane(repository)
	if len(b.waker.events) != 1 {
		t.Fatalf("%d NodeSyncs are woken, want 1", len(b.waker.events))
	}
	if woken := <-b.waker.events; woken.Object.GetName() != "prod" {
		t.Errorf("%s is woken", woken.Object.GetName())
	}
	if b.reconcile(); *b.patches == before {
		t.Error("no pass when there was a lane")
	}
	if len(b.lanes.running) > 0 || len(b.lanes.waiting) > 0 || len(b.waker.events) > 0 {
		t.Errorf("passes that have ended count: %v, %v waits, %d are woken", b.lanes.running, b.lanes.waiting, len(b.waker.events))
	}
}
