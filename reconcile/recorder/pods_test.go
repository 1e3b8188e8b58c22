package recorder

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podsOf is how many pods are recorded of a NodeClaim; -1 where that is not.
func (w *world) podsOf(name string) int {
	for _, r := range w.log().Records {
		if r.NodeClaim == name && r.Pods != nil {
			return *r.Pods
		}
	}
	return -1
}

// controller is the owner references of a pod.
func controller(kind string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{Kind: kind, Name: "its", Controller: new(true)}}
}

// TestPodsAreCounted: those that have to run elsewhere, as they were when the deletion began.
func TestPodsAreCounted(t *testing.T) {
	w := newWorld(t)
	w.launch("a")
	must(t, w.after(time.Second))
	ending := func(asked time.Time) metav1.ObjectMeta {
		at := metav1.NewTime(asked.Add(30 * time.Second))
		return metav1.ObjectMeta{OwnerReferences: controller("ReplicaSet"), DeletionTimestamp: &at, DeletionGracePeriodSeconds: new(int64(30))}
	}
	w.pods = map[string][]metav1.ObjectMeta{"node-a": {
		{OwnerReferences: controller("ReplicaSet")},
		{Name: "without a controller"},
		ending(w.now), // evicted since
		ending(w.now.Add(-time.Second)),
		{OwnerReferences: controller("DaemonSet")},
		{OwnerReferences: controller("Node"), Annotations: map[string]string{"kubernetes.io/config.mirror": "1"}},
	}, "node-b": {{}}}
	w.delete("a")
	must(t, w.after(batch))
	if got := w.podsOf("a"); got != 3 {
		t.Errorf("%d pods, want 3", got)
	}
	w.pods = nil
	must(t, w.after(batch))
	w.end("a")
	must(t, w.after(batch))
	if got := w.podsOf("a"); got != 3 || w.counted != 1 {
		t.Errorf("at the end %d pods, counted %d times, want 3 and 1", got, w.counted)
	}
}

// TestPodsThatAreNotCounted: the number is missing, and not wrong, where they were not read in time.
func TestPodsThatAreNotCounted(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*world)
		counts int
	}{
		"it may not be":    {func(w *world) { w.uncounted = errors.New("pods is forbidden"); w.delete("a") }, 1},
		"seen too late":    {func(w *world) { w.delete("a"); w.now = w.now.Add(countsFor) }, 0},
		"it had no node":   {func(w *world) { w.claims["a"].Status.NodeName = ""; w.delete("a") }, 0},
		"it is gone":       {func(w *world) { w.delete("a"); w.end("a") }, 0},
		"it is drained":    {func(w *world) { condition(w.claims["a"], "Drained", "Drained", w.now); w.delete("a") }, 0},
		"of no NodeSync":   {func(w *world) { w.claims["a"].Labels["karpenter.sh/nodepool"] = "theirs"; w.delete("a") }, 0},
		"too many at once": {func(w *world) { w.r.counts.AllowN(w.now.Add(batch), countsBurst); w.delete("a") }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.launch("a")
			must(t, w.after(time.Second))
			c.before(w)
			must(t, w.after(batch))
			if got := w.podsOf("a"); got != -1 || w.counted != c.counts {
				t.Errorf("%d pods, read %d times, want none, and %d", got, w.counted, c.counts)
			}
		})
	}
}

// TestPodsAreCountedLater where the API server did not answer first, and what one leader has counted
// the next keeps.
func TestPodsAreCountedLater(t *testing.T) {
	w := newWorld(t)
	w.launch("a")
	must(t, w.after(time.Second))
	w.pods = map[string][]metav1.ObjectMeta{"node-a": {{}, {}}}
	w.uncounted = errors.New("etcd has no leader")
	w.delete("a")
	must(t, w.after(pause))
	w.uncounted = nil
	must(t, w.after(batch))
	if got := w.podsOf("a"); got != 2 {
		t.Errorf("%d pods, want 2", got)
	}
	w.pods = nil
	w.start()
	must(t, w.after(pause))
	must(t, w.after(batch))
	if got := w.podsOf("a"); got != 2 {
		t.Errorf("the next leader says %d pods, want 2", got)
	}
}

// TestPodsAreCountedAtOnce: they are gone soon.
func TestPodsAreCountedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.r.Now = time.Now
		w.now = time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		w.launch("a")
		go func() { ended <- w.r.Start(ctx) }()
		time.Sleep(time.Minute) //nolint:forbidigo // the bubble's clock
		w.now = time.Now()
		w.delete("a")
		synctest.Wait()
		if w.counted != 1 {
			t.Errorf("counted %d times before time has passed, want 1", w.counted)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
