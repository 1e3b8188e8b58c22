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
	if len(b.lanes.known) > 0 || len(b.waker.events) > 0 {
		t.Errorf("passes that have ended count: %v, and wake %d", b.lanes.known, len(b.waker.events))
	}
}
