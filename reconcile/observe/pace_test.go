package observe_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/observe"
)

// noting is a queue that notes after which time each request is to come.
type noting struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]

	waits map[string][]time.Duration
}

func (n *noting) AddAfter(request reconcile.Request, after time.Duration) {
	n.waits[request.Name] = append(n.waits[request.Name], after)
}

func TestPace(t *testing.T) {
	now := time.Unix(1000, 0)
	pace := &observe.Pace{Now: func() time.Time { return now }}
	handler := pace.Handler(func(_ context.Context, obj client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: obj.GetName()}}}
	})
	q := &noting{waits: map[string][]time.Duration{}}
	happens := func(after time.Duration, name string) {
		now = now.Add(after)
		claim := &karpv1.NodeClaim{}
		claim.Name = name
		handler.Create(t.Context(), event.CreateEvent{Object: claim}, q)
	}
	const ms = time.Millisecond
	happens(0, "a")      // the first
	happens(10*ms, "a")  // held back
	happens(10*ms, "a")  // together with the one before
	happens(0, "b")      // another is not held back
	happens(35*ms, "a")  // just after it was woken: a moment after that
	happens(100*ms, "a") // after a quiet time
	want := map[string][]time.Duration{"a": {0, 40 * ms, 30 * ms, 45 * ms, 0}, "b": {0}}
	if diff := cmp.Diff(want, q.waits); diff != "" {
		t.Errorf("held back for (-want +got):\n%s", diff)
	}
}
