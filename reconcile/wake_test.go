package reconcile

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/watch"
)

// leading makes a bed's Reconciler the leader, with a queue for wake-ups.
func leading(b *bed, line int) {
	elected := make(chan struct{})
	close(elected)
	b.waker = watch.Waker{Elected: elected, Events: make(chan event.GenericEvent, line)}
}

func TestAPushIsFetchedBeforeTheInterval(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	leading(b, 10)
	b.reconcile()
	b.clock.forward(time.Second)
	b.reconcile()
	if len(b.source.requests) != 1 {
		t.Fatalf("fetched %d times within the interval", len(b.source.requests))
	}
	patched := *b.patches
	if err := b.Wake(t.Context(), []v1alpha1.NodeSync{*b.read()}); err != nil {
		t.Fatal(err)
	}
	if *b.patches != patched {
		t.Error("a leader writes to be woken")
	}
	select {
	case woken := <-b.waker.Events:
		if woken.Object.GetName() != "prod" {
			t.Errorf("%s is woken", woken.Object.GetName())
		}
	default:
		t.Fatal("nothing is woken")
	}
	b.clock.forward(time.Millisecond)
	b.reconcile()
	b.reconcile()
	if len(b.source.requests) != 2 {
		t.Errorf("a push is fetched %d times, want once", len(b.source.requests)-1)
	}
}

// TestAPushWhileAFetchIsUnderWay shows that another fetch follows: the one in progress may return an older state than
// the push.
func TestAPushWhileAFetchIsUnderWay(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	leading(b, 10)
	b.source.during = func() {
		b.clock.forward(time.Millisecond)
		if err := b.Wake(t.Context(), []v1alpha1.NodeSync{*b.read()}); err != nil {
			t.Error(err)
		}
		b.source.during = nil
	}
	b.reconcile()
	b.reconcile()
	if len(b.source.requests) != 2 {
		t.Errorf("fetched %d times, want again for the push", len(b.source.requests))
	}
}

// TestAPushEndsTheWaitAfterAFailure shows that a push triggers a retry: it may fix the failure.
func TestAPushEndsTheWaitAfterAFailure(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	leading(b, 10)
	b.source.err = errors.New("no such branch")
	b.reconcile()
	b.reconcile()
	if len(b.source.requests) != 1 {
		t.Fatalf("tried %d times within the retry interval", len(b.source.requests))
	}
	b.clock.forward(time.Second)
	if err := b.Wake(t.Context(), []v1alpha1.NodeSync{*b.read()}); err != nil {
		t.Fatal(err)
	}
	b.reconcile()
	if len(b.source.requests) != 2 {
		t.Errorf("tried %d times, want again for the push", len(b.source.requests))
	}
}

// TestAStandbyAsksInTheCluster shows that the leader handles a standby's request like a person's, and fetches.
func TestAStandbyAsksInTheCluster(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	leader := newBed(t, nodeSync(unchanged))
	leading(leader, 10)
	leader.Client, leader.Uncached = b.client, b.client
	leader.reconcile()
	if len(leader.source.requests) != 1 {
		t.Fatalf("the leader has fetched %d times", len(leader.source.requests))
	}
	b.waker.Elected = make(chan struct{})
	gone := *nodeSync(func(n *v1alpha1.NodeSync) { n.Name = "gone" })
	if err := b.Wake(t.Context(), []v1alpha1.NodeSync{gone, *b.read()}); err != nil {
		t.Fatal(err)
	}
	if at, asked := meta.ReconcileAnnotationValue(b.read().GetAnnotations()); !asked || at == "" {
		t.Fatalf("annotations %v", b.read().GetAnnotations())
	}
	leader.reconcile()
	if len(leader.source.requests) != 2 {
		t.Errorf("the leader has fetched %d times, want once more", len(leader.source.requests))
	}
}

// TestWakingEnds shows that a controller that handles nothing does not block a request for ever.
func TestWakingEnds(t *testing.T) {
	b := newBed(t, nodeSync(unchanged))
	leading(b, 1)
	b.reconcile()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	sync := *b.read()
	err := b.Wake(ctx, []v1alpha1.NodeSync{sync, sync, sync})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("ends with %v", err)
	}
	if name := client.ObjectKeyFromObject(&sync); !b.memories.Pushed(name).Equal(b.clock.now()) {
		t.Error("the push itself is forgotten")
	}
}
