package recorder

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wants(t *testing.T, w *world, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, w.said()); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
}

// status changes the NodeSync's status.
func (w *world) status(change func(*v1alpha1.NodeSyncStatus)) {
	sync := &v1alpha1.NodeSync{}
	if err := w.client.Get(w.t.Context(), types.NamespacedName{Namespace: "plumbline-system", Name: "prod"}, sync); err != nil {
		w.t.Fatal(err)
	}
	change(&sync.Status)
	if err := w.client.Update(w.t.Context(), sync); err != nil {
		w.t.Fatal(err)
	}
}

// TestFromDeletionToEnd checks that a NodeClaim is recorded when its deletion starts, and when it is gone.
func TestFromDeletionToEnd(t *testing.T) {
	w := newWorld(t)
	claim := w.launch("a")
	w.pods = map[string][]metav1.ObjectMeta{"node-a": {{Name: "web-1"}, {Name: "web-2"}}}
	must(t, w.after(time.Second))
	if log := w.log(); len(log.Records) != 0 || log.Until.IsZero() {
		t.Errorf("before anything ends: %+v", log)
	}
	w.status(func(s *v1alpha1.NodeSyncStatus) { s.Rollout = &v1alpha1.Rollout{Revision: "main@sha1:2"} })
	condition(claim, karpv1.ConditionTypeDrifted, "AMIDrift", w.now)
	condition(claim, karpv1.ConditionTypeDisruptionReason, "Drifted", w.now)
	w.now = w.now.Add(time.Minute)
	w.delete("a")
	must(t, w.after(writeInterval))
	wants(t, w, "a ending Drifted AMIDrift main@sha1:2")
	deleted := w.now.Add(-writeInterval)
	w.end("a")
	ended := w.now
	must(t, w.after(writeInterval))
	wants(t, w, "a gone Drifted AMIDrift main@sha1:2")
	want := Record{
		NodeClaim: "a", Node: "node-a", Instance: "i-a", Pool: "general", InstanceType: "m5.large", Zone: "eu-west-1a", CapacityType: "spot",
		Created: noon, Deleted: metav1.NewTime(deleted), Drained: metav1.NewTime(ended), VolumesDetached: metav1.NewTime(ended), InstanceTerminating: metav1.NewTime(ended), Gone: metav1.NewTime(ended),
		Pods: new(2), Cause: Drifted, Detail: "AMIDrift", Revision: "main@sha1:2", ByRevision: true,
	}
	if diff := cmp.Diff(want, w.log().Records[0]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	writes := w.writes.Load()
	must(t, w.after(settlePeriod))
	must(t, w.after(writeInterval))
	if w.writes.Load() != writes || len(w.r.seen) != 0 {
		t.Errorf("%d writes where nothing is new, %d kept", w.writes.Load()-writes, len(w.r.seen))
	}
}

// TestEventsComeLate checks this because Karpenter sends events after the deletion.
func TestEventsComeLate(t *testing.T) {
	w := newWorld(t)
	w.launch("a")
	must(t, w.after(time.Second))
	w.delete("a")
	w.end("a")
	must(t, w.after(writeInterval))
	for _, reason := range []string{"SpotInterrupted", "TerminatingOnInterruption"} {
		w.events = append(w.events, corev1.Event{Reason: reason, InvolvedObject: corev1.ObjectReference{UID: "uid-a"}}, corev1.Event{Reason: "InstanceStopping", InvolvedObject: corev1.ObjectReference{UID: "uid-b"}})
	}
	must(t, w.after(writeInterval))
	wants(t, w, "a gone Interrupted SpotInterrupted main@sha1:1")

	w.refused = errors.New("refused")
	w.launch("b")
	w.delete("b")
	w.end("b")
	if err := w.after(writeInterval); !errors.Is(err, w.refused) {
		t.Errorf("says %v", err)
	}
	wants(t, w, "b gone Unknown Karpenter's events could not be read main@sha1:1", "a gone Interrupted SpotInterrupted main@sha1:1")
}

// TestWhoDeletes checks the state of the pool and of its removal when the deletion starts.
func TestWhoDeletes(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"a", "b", "c", "d"} {
		w.launch(name)
	}
	stranger := w.launch("e")
	stranger.Labels = map[string]string{karpv1.NodePoolLabelKey: "theirs"}
	must(t, w.after(time.Second))
	w.delete("a")
	removal := v1alpha1.Removal{Kind: "NodePool", Name: "general", Revision: "main@sha1:3", RecordedAt: metav1.NewTime(w.now), Phase: v1alpha1.RemovalPacing}
	w.status(func(s *v1alpha1.NodeSyncStatus) { s.Removals = []v1alpha1.Removal{removal} })
	must(t, w.after(writeInterval))
	w.now = w.now.Add(time.Minute)
	removal.Phase, removal.Since = v1alpha1.RemovalDraining, metav1.NewTime(w.now.Add(2*time.Second))
	w.delete("b")
	w.status(func(s *v1alpha1.NodeSyncStatus) { s.Removals = []v1alpha1.Removal{removal} })
	w.delete("e")
	must(t, w.after(writeInterval))
	w.status(func(s *v1alpha1.NodeSyncStatus) { s.Removals = nil })
	if err := w.client.Delete(w.t.Context(), w.pool("general")); err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(time.Minute)
	w.delete("c")
	must(t, w.after(writeInterval))
	other := w.pool("general")
	other.SetUID("pool-other")
	must(t, w.client.Create(w.t.Context(), other))
	w.now = w.now.Add(time.Minute)
	w.delete("d")
	must(t, w.after(writeInterval))
	wants(t, w, "d ending PoolDeleted  main@sha1:1", "c ending PoolDeleted  main@sha1:1", "b ending Removed  main@sha1:3", "a ending ByHand  main@sha1:1")
}

// TestStaticAndRepair checks what is read about the pool and the Node.
func TestStaticAndRepair(t *testing.T) {
	w := newWorld(t)
	w.launch("a")
	sick := w.launch("b")
	must(t, w.after(time.Second))
	pool := w.pool("general")
	must(t, w.client.Get(w.t.Context(), types.NamespacedName{Name: "general"}, pool))
	must(t, unstructured.SetNestedField(pool.Object, int64(3), "spec", "replicas"))
	must(t, w.client.Update(w.t.Context(), pool))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-b"}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: "KernelReady", Status: "False", LastTransitionTime: noon}}
	must(t, w.client.Create(w.t.Context(), node))
	w.now = w.now.Add(time.Hour)
	w.delete("a")
	sick.Annotations = map[string]string{karpv1.NodeClaimTerminationTimestampAnnotationKey: w.now.Format(time.RFC3339)}
	w.delete("b")
	must(t, w.after(writeInterval))
	wants(t, w, "b ending Unhealthy KernelReady=False main@sha1:1", "a ending Unknown its NodePool is static: replicas were reduced, or it was deleted by hand main@sha1:1")
	node.Status.Conditions[0].LastTransitionTime = metav1.NewTime(w.now)
	if words := unhealthy(node, w.now.Add(29*time.Minute)); words != "" {
		t.Errorf("repaired too early: %s", words)
	}
}

// TestNobodyLed checks that what was terminating is recorded as gone, that what was terminated in between is lost, and
// that the log shows this.
func TestNobodyLed(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"a", "b", "c"} {
		w.launch(name)
	}
	must(t, w.after(time.Second))
	w.delete("a")
	w.delete("b")
	must(t, w.after(writeInterval))
	left := w.now.Add(-observeDelay)
	w.r = nil
	w.now = w.now.Add(time.Hour)
	w.end("a")
	w.delete("c")
	w.end("c")
	w.now = w.now.Add(time.Hour)
	w.start()
	must(t, w.after(writeInterval))
	wants(t, w, "b ending ByHand  main@sha1:1", "a gone Unknown its termination was not observed main@sha1:1")
	if diff := cmp.Diff([]Gap{{metav1.NewTime(left), metav1.NewTime(w.now)}}, w.log().Gaps); diff != "" {
		t.Errorf("gaps (-want +got):\n%s", diff)
	}
	w.end("b")
	must(t, w.after(writeInterval))
	wants(t, w, "b gone ByHand  main@sha1:1", "a gone Unknown its termination was not observed main@sha1:1")
	for range maxGaps + 5 {
		w.start()
		w.launch("d")
		must(t, w.after(writeInterval))
		w.end("d")
	}
	if log := w.log(); len(log.Gaps) != maxGaps {
		t.Errorf("%d gaps", len(log.Gaps))
	}
}

// TestTheEndOfManyAtOnce checks that it takes few writes, and keeps the latest.
func TestTheEndOfManyAtOnce(t *testing.T) {
	w := newWorld(t)
	const many = 5000
	for i := range many {
		w.launch(fmt.Sprintf("general-%05d", i))
	}
	must(t, w.after(time.Second))
	writes := w.writes.Load()
	for i := range many {
		w.now = w.now.Add(time.Millisecond)
		w.delete(fmt.Sprintf("general-%05d", i))
	}
	must(t, w.after(writeInterval))
	for i := range many {
		w.end(fmt.Sprintf("general-%05d", i))
	}
	for range 5 {
		must(t, w.after(writeInterval))
	}
	must(t, w.after(asksAgain)) // after the last query to EC2
	if got := w.writes.Load() - writes; int(got) > 2*defaultRing.segments {
		t.Errorf("%d writes", got)
	}
	if w.counted != countsBurst {
		t.Errorf("the pods of %d nodes are counted, want %d", w.counted, countsBurst)
	}
	records := w.log().Records
	if len(records) != defaultRing.capacity() || len(w.r.seen) != 0 {
		t.Fatalf("%d records, %d kept in memory", len(records), len(w.r.seen))
	}
	for _, r := range records {
		if r.NodeClaim < fmt.Sprintf("general-%05d", many-defaultRing.capacity()) || r.Gone.IsZero() {
			t.Fatalf("%s is recorded, gone %s", r.NodeClaim, r.Gone)
		}
	}
}

// TestARecorderRunsByItself checks that it writes in batches, with a heartbeat, and once more when it is stopped.
func TestARecorderRunsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.r.Now = time.Now
		w.now = time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		w.launch("a")
		w.launch("b")
		go func() { ended <- w.r.Start(ctx) }()
		time.Sleep(time.Second) //nolint:forbidigo // the bubble's clock
		w.delete("a")
		time.Sleep(2 * writeInterval) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		wants(t, w, "a ending ByHand  main@sha1:1")
		until, writes := w.log().Until, w.writes.Load()
		time.Sleep(time.Hour) //nolint:forbidigo // the bubble's clock
		synctest.Wait()
		if got := w.log().Until.Sub(until.Time); got < time.Hour-2*heartbeat || w.writes.Load()-writes > int64(time.Hour/heartbeat)+1 {
			t.Errorf("%s later all is recorded, %d writes", got, w.writes.Load()-writes)
		}
		w.now = time.Now()
		w.delete("b")
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		wants(t, w, "b ending Unknown EC2 does not report whether it terminated the instance before main@sha1:1", "a ending ByHand  main@sha1:1")
	})
}

// TestUnwrittenAreBounded checks that what cannot be written does not use up the memory.
func TestUnwrittenAreBounded(t *testing.T) {
	w := newWorld(t)
	w.fuse = 0
	for i := range maxUnwritten + 100 {
		name := fmt.Sprintf("general-%05d", i)
		w.launch(name)
		w.delete(name)
		w.end(name)
	}
	if err := w.after(writeInterval); !errors.Is(err, errKilled) {
		t.Errorf("says %v", err)
	}
	if len(w.r.seen) != maxUnwritten {
		t.Errorf("%d are kept", len(w.r.seen))
	}
}

// podsOf returns how many pods are recorded for a NodeClaim; -1 if none are.
func (w *world) podsOf(name string) int {
	for _, r := range w.log().Records {
		if r.NodeClaim == name && r.Pods != nil {
			return *r.Pods
		}
	}
	return -1
}

// controller returns the owner references of a pod.
func controller(kind string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{Kind: kind, Name: "its", Controller: new(true)}}
}

// TestPodsAreCounted checks that those are counted that must run elsewhere, as of when the deletion started.
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
		ending(w.now), // evicted since then
		ending(w.now.Add(-time.Second)),
		{OwnerReferences: controller("DaemonSet")},
		{OwnerReferences: controller("Node"), Annotations: map[string]string{"kubernetes.io/config.mirror": "1"}},
	}, "node-b": {{}}}
	w.delete("a")
	must(t, w.after(writeInterval))
	if got := w.podsOf("a"); got != 3 {
		t.Errorf("%d pods, want 3", got)
	}
	w.pods = nil
	must(t, w.after(writeInterval))
	w.end("a")
	must(t, w.after(writeInterval))
	if got := w.podsOf("a"); got != 3 || w.counted != 1 {
		t.Errorf("at the end %d pods, counted %d times, want 3 and 1", got, w.counted)
	}
}

// TestPodsThatAreNotCounted checks that the number is missing, rather than wrong, if the pods were not read in time.
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
		"too many at once": {func(w *world) { w.r.counts.AllowN(w.now.Add(writeInterval), countsBurst); w.delete("a") }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.launch("a")
			must(t, w.after(time.Second))
			c.before(w)
			must(t, w.after(writeInterval))
			if got := w.podsOf("a"); got != -1 || w.counted != c.counts {
				t.Errorf("%d pods, read %d times, want none, and %d", got, w.counted, c.counts)
			}
		})
	}
}

// TestPodsAreCountedLater checks that pods are counted later if the API server did not respond at first, and that the
// next leader keeps the number of the previous one.
func TestPodsAreCountedLater(t *testing.T) {
	w := newWorld(t)
	w.launch("a")
	must(t, w.after(time.Second))
	w.pods = map[string][]metav1.ObjectMeta{"node-a": {{}, {}}}
	w.uncounted = errors.New("etcd has no leader")
	w.delete("a")
	must(t, w.after(roundInterval))
	w.uncounted = nil
	must(t, w.after(writeInterval))
	if got := w.podsOf("a"); got != 2 {
		t.Errorf("%d pods, want 2", got)
	}
	w.pods = nil
	w.start()
	must(t, w.after(roundInterval))
	must(t, w.after(writeInterval))
	if got := w.podsOf("a"); got != 2 {
		t.Errorf("the next leader says %d pods, want 2", got)
	}
}

// TestPodsAreCountedAtOnce checks that pods are counted without delay, because they are gone soon.
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

// TestANodeClaimWithoutItsNode checks that it counts as deleted by hand: Karpenter then drains nothing, which proves
// nothing about the instance.
func TestANodeClaimWithoutItsNode(t *testing.T) {
	w := newWorld(t)
	w.launch("a")
	must(t, w.after(time.Second))
	w.nodeless = map[string]bool{"node-a": true}
	w.delete("a")
	must(t, w.after(writeInterval))
	condition(w.claims["a"], karpv1.ConditionTypeInstanceTerminating, karpv1.ConditionTypeInstanceTerminating, w.now)
	w.see(w.claims["a"])
	must(t, w.after(writeInterval))
	wants(t, w, "a ending ByHand its Node was already deleted main@sha1:1")
}

// TestEC2IsAsked checks that an instance that was terminated before its NodeClaim was deleted is distinguished from one
// that Karpenter terminated afterwards, and that EC2 is not queried about a NodeClaim that shows its cause.
func TestEC2IsAsked(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"killed", "deleted", "drifted"} {
		w.launch(name)
	}
	must(t, w.after(time.Second))
	w.ends("i-killed")
	w.now = w.now.Add(2 * time.Minute)
	condition(w.claims["drifted"], "DisruptionReason", "Drifted", w.now)
	for _, name := range []string{"killed", "deleted", "drifted"} {
		w.delete(name)
	}
	must(t, w.after(writeInterval))
	wants(t, w, "killed ending InstanceGone EC2 had already terminated the instance (Client.UserInitiatedShutdown) main@sha1:1", "drifted ending Drifted  main@sha1:1", "deleted ending ByHand  main@sha1:1")
	must(t, w.after(writeInterval))
	if w.asked != 1 {
		t.Errorf("asked %d times while nothing has changed", w.asked)
	}
	w.now = w.now.Add(asksAgain)
	for _, name := range []string{"killed", "deleted", "drifted"} {
		w.end(name)
	}
	must(t, w.after(writeInterval))
	wants(t, w, "killed gone InstanceGone EC2 had already terminated the instance (Client.UserInitiatedShutdown) main@sha1:1", "drifted gone Drifted  main@sha1:1", "deleted gone ByHand  main@sha1:1")
	must(t, w.after(settlePeriod))
	if w.asked != 2 || len(w.r.seen) != 0 {
		t.Errorf("asked %d times, %d kept", w.asked, len(w.r.seen))
	}
}

// TestEC2DoesNotAnswer checks that the cause is unknown, that the query is repeated for some minutes after the
// termination, and that the cause then stays unknown.
func TestEC2DoesNotAnswer(t *testing.T) {
	w := newWorld(t)
	w.launch("late")
	w.launch("never")
	must(t, w.after(time.Second))
	w.unasked = errors.New("AWS denies ec2:DescribeInstances")
	never := w.ec2["i-never"]
	w.delete("late")
	w.end("late")
	w.delete("never")
	w.end("never")
	w.ec2 = map[string]cloud.Instance{}
	must(t, w.after(writeInterval))
	const unknown = " gone Unknown EC2 does not report whether it terminated the instance before main@sha1:1"
	wants(t, w, "never"+unknown, "late"+unknown)
	must(t, w.after(settlePeriod))
	if w.asked != 1 {
		t.Errorf("asked %d times within %s", w.asked, settlePeriod)
	}
	w.unasked = nil
	w.ec2["i-late"] = cloud.Instance{ID: "i-late", Zone: "eu-west-1a", State: "terminated", Since: w.now.Add(-time.Hour), Reason: "Server.SpotInstanceTermination: Spot instance termination"}
	must(t, w.after(asksAgain))
	wants(t, w, "never"+unknown, "late gone InstanceGone EC2 had already terminated the instance (Server.SpotInstanceTermination) main@sha1:1")
	must(t, w.after(asksFor))
	never.State = "terminated"
	w.ec2["i-never"] = never
	asked := w.asked
	must(t, w.after(asksAgain))
	wants(t, w, "never"+unknown, "late gone InstanceGone EC2 had already terminated the instance (Server.SpotInstanceTermination) main@sha1:1")
	if w.asked != asked || len(w.r.seen) != 0 {
		t.Errorf("asked %d times more, %d kept", w.asked-asked, len(w.r.seen))
	}
}
