package cluster_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/cluster"
)

// noting is a queue that records the delay of each request.
type noting struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]

	waits map[string][]time.Duration
}

func (n *noting) AddAfter(request reconcile.Request, after time.Duration) {
	n.waits[request.Name] = append(n.waits[request.Name], after)
}

func TestPace(t *testing.T) {
	now := time.Unix(1000, 0)
	pace := &cluster.Pace{Now: func() time.Time { return now }}
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
	happens(35*ms, "a")  // just after it was woken: twice as long
	happens(100*ms, "a") // and again
	happens(600*ms, "a") // after a quiet time
	want := map[string][]time.Duration{"a": {0, 40 * ms, 30 * ms, 95 * ms, 195 * ms, 0}, "b": {0}}
	if diff := cmp.Diff(want, q.waits); diff != "" {
		t.Errorf("held back for (-want +got):\n%s", diff)
	}
}

// TestPaceOfAStorm: the longer events keep coming, the less often they enqueue a NodeSync, down to once per second;
// afterwards each event does so immediately.
func TestPaceOfAStorm(t *testing.T) {
	const ms, storm = time.Millisecond, 8 * time.Second
	now := time.Unix(1000, 0)
	pace := &cluster.Pace{Now: func() time.Time { return now }}
	handler := pace.Handler(func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{{}} })
	q := &noting{waits: map[string][]time.Duration{}}
	woken := map[time.Time]bool{}
	for end := now.Add(storm); now.Before(end); now = now.Add(ms) {
		handler.Create(t.Context(), event.CreateEvent{Object: &karpv1.NodeClaim{}}, q)
		waits := q.waits[""]
		last := waits[len(waits)-1]
		if last < 0 || last > 1000*ms {
			t.Fatalf("held back for %s", last)
		}
		woken[now.Add(last)] = true
	}
	if len(woken) < 12 || len(woken) > 14 {
		t.Errorf("woken %d times in %s", len(woken), storm)
	}
	now = now.Add(4 * time.Second)
	handler.Create(t.Context(), event.CreateEvent{Object: &karpv1.NodeClaim{}}, q)
	if waits := q.waits[""]; waits[len(waits)-1] != 0 {
		t.Errorf("held back for %s after the storm", waits[len(waits)-1])
	}
}

// TestPaceOfLongPasses: the longer a reconcile takes, the less often events trigger the next one, down to once in ten
// seconds; after a short one they wait for at most one second.
func TestPaceOfLongPasses(t *testing.T) {
	const ms, storm = time.Millisecond, 60 * time.Second
	for took, want := range map[time.Duration]time.Duration{0: time.Second, 200 * ms: time.Second, 1500 * ms: 6 * time.Second, time.Minute: 10 * time.Second} {
		now := time.Unix(1000, 0)
		pace := &cluster.Pace{Now: func() time.Time { return now }}
		handler := pace.Handler(func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{{}} })
		q := &noting{waits: map[string][]time.Duration{}}
		longest, next := time.Duration(0), now
		for end := now.Add(storm); now.Before(end); now = now.Add(ms) {
			if !now.Before(next) {
				pace.Took(reconcile.Request{}, took)
			}
			handler.Create(t.Context(), event.CreateEvent{Object: &karpv1.NodeClaim{}}, q)
			waits := q.waits[""]
			longest, next = max(longest, waits[len(waits)-1]), now.Add(waits[len(waits)-1])
		}
		if longest != want {
			t.Errorf("held back for up to %s after passes of %s, want %s", longest, took, want)
		}
	}
}

// TestPaceRemembersNobodyForLong: NodeSyncs come and go, and the daemon runs for months.
func TestPaceRemembersNobodyForLong(t *testing.T) {
	now := time.Unix(1000, 0)
	pace := &cluster.Pace{Now: func() time.Time { return now }}
	handler := pace.Handler(func(_ context.Context, obj client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: obj.GetName()}}}
	})
	q := &noting{waits: map[string][]time.Duration{}}
	const many = 20_000
	before := heap()
	for i := range many {
		now = now.Add(time.Second)
		claim := &karpv1.NodeClaim{}
		claim.Name = fmt.Sprintf("sync-%d", i)
		handler.Create(t.Context(), event.CreateEvent{Object: claim}, q)
		clear(q.waits)
	}
	grown := int64(heap()) - int64(before)
	runtime.KeepAlive(pace)
	if grown > many*50 {
		t.Errorf("%d bytes are kept of %d NodeSyncs that were woken once", grown, many)
	}
}

// listener records its calls.
type listener struct{ heard []string }

func (l *listener) See(claim *karpv1.NodeClaim) { l.heard = append(l.heard, "see "+claim.Name) }

func (l *listener) Gone(claim *karpv1.NodeClaim, missed bool) {
	how := "gone "
	if missed {
		how = "missed "
	}
	l.heard = append(l.heard, how+claim.Name)
}

func TestTell(t *testing.T) {
	a, b := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
	l := &listener{}
	for _, ends := range []cluster.ClaimEvents{l, nil} {
		tell := cluster.NotifyClaims(ends)
		through := tell.Create(event.CreateEvent{Object: a}) && tell.Update(event.UpdateEvent{ObjectOld: a, ObjectNew: b}) &&
			tell.Delete(event.DeleteEvent{Object: a}) && tell.Delete(event.DeleteEvent{Object: b, DeleteStateUnknown: true}) &&
			tell.Create(event.CreateEvent{Object: &corev1.Node{}}) && tell.Delete(event.DeleteEvent{Object: &corev1.Node{}})
		if !through {
			t.Errorf("%v keeps events back", ends)
		}
	}
	if diff := cmp.Diff([]string{"see a", "see b", "gone a", "missed b"}, l.heard); diff != "" {
		t.Errorf("heard (-want +got):\n%s", diff)
	}
}

// TestTrimKeepsWhatSaysWhyItEnds: its own expireAfter, and its termination time.
func TestTrimKeepsWhatSaysWhyItEnds(t *testing.T) {
	full := claim()
	full.Spec.ExpireAfter = karpv1.NillableDuration{Duration: ptr.To(time.Hour), Raw: []byte(`"1h"`)}
	full.Annotations[karpv1.NodeClaimTerminationTimestampAnnotationKey] = "2026-03-01T12:00:00Z"
	trimmed := kept(t, full)
	if after := trimmed.Spec.ExpireAfter.Duration; after == nil || *after != time.Hour {
		t.Errorf("expireAfter is %v", after)
	}
	want := map[string]string{karpv1.NodeClaimTerminationTimestampAnnotationKey: "2026-03-01T12:00:00Z"}
	if diff := cmp.Diff(want, trimmed.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}
