package reconcile

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/plumbline-dev/plumbline/reconcile/watch"
)

// TestAPassWithoutALaneIsWoken shows that such a reconcile does nothing, and is triggered once when there is a lane.
func TestAPassWithoutALaneIsWoken(t *testing.T) {
	const repository = "https://git.example.com/acme/fleet.git"
	b := newBed(t, nodeSync(unchanged))
	b.lanes.Among(2)
	b.waker.Events = make(chan event.GenericEvent, 2)
	b.lanes.Enter(repository, types.NamespacedName{Name: "other"})
	before := *b.patches
	for range 2 {
		if got := b.reconcile(); got.RequeueAfter != watch.RetryWithoutLane || *b.patches != before || len(b.source.requests) > 0 {
			t.Errorf("tried again after %s, want %s, with %d patches and %d fetches, want none", got.RequeueAfter, watch.RetryWithoutLane, *b.patches-before, len(b.source.requests))
		}
	}
	b.lanes.End(repository, b.Enqueue)
	if len(b.waker.Events) != 1 {
		t.Fatalf("%d NodeSyncs are woken, want 1", len(b.waker.Events))
	}
	if woken := <-b.waker.Events; woken.Object.GetName() != "prod" {
		t.Errorf("%s is woken", woken.Object.GetName())
	}
	if b.reconcile(); *b.patches == before {
		t.Error("no pass when there was a lane")
	}
	if len(b.waker.Events) > 0 {
		t.Errorf("passes that have ended wake %d", len(b.waker.Events))
	}
}
