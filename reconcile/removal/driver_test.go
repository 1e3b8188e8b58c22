package removal

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/blocker"
	"github.com/plumbline-dev/plumbline/render"
)

func dynamic() map[string]any {
	return map[string]any{"limits": map[string]any{"cpu": "100", "memory": "1Ti"}}
}

func limits(t *testing.T, object *unstructured.Unstructured) map[string]any {
	t.Helper()
	found, _, err := unstructured.NestedMap(object.Object, "spec", "limits")
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestDriveAWholeRemoval(t *testing.T) {
	batch := pool("batch", "batch-uid", dynamic())
	s := newStage(t, batch, pool("general", "general-uid", dynamic()))
	s.launch("a", "batch", "batch-uid")
	s.launch("b", "batch", "batch-uid")
	s.launch("other", "general", "general-uid")
	s.find(render.NodePool, "batch", "batch-uid")

	expect := func(what string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, s.pass()); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", what, diff)
		}
	}
	expect("the record is written, and nothing else", "batch Pacing")
	if !strings.Contains(s.record()["batch-uid"], "aws:///eu-west-1a/i-a") || s.last.Again != s.now {
		t.Fatalf("record %v, next pass %v", s.record(), s.last.Again)
	}
	expect("growth is stopped", "batch Pacing", "stop growth")
	s.exists(batch)
	if diff := cmp.Diff(map[string]any{"cpu": "0", "memory": "1Ti"}, limits(t, batch)); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	expect("NodeClaims are ended", "batch Draining", "delete NodeClaim/a", "delete NodeClaim/b")
	expect("they drain", "batch Draining")
	s.karpenter("shutting-down")
	expect("EC2 has not ended them", "batch VerifyingCloud")
	s.become("i-a", "terminated")
	expect("nor this one", "batch VerifyingCloud")
	delete(s.instances, "i-a")
	s.become("i-b", "terminated")
	expect("EC2 has", "batch Finalizing", "delete the object")
	expect("it is gone", "batch Gone")
	if s.exists(batch) || s.record() != nil {
		t.Errorf("left: pool %v, record %v", s.exists(batch), s.record())
	}
	if claims := s.claims(); len(claims) != 1 || claims[0].Name != "other" || !claims[0].DeletionTimestamp.IsZero() {
		t.Errorf("the other pool's nodes were touched: %v", claims)
	}
}

// TestDriveOnAStaleCache checks that a deletion does not rely on the cache.
func TestDriveOnAStaleCache(t *testing.T) {
	stopped := map[string]any{"limits": map[string]any{"cpu": "0"}}
	s := newStage(t, pool("batch", "batch-uid", stopped))
	s.find(render.NodePool, "batch", "batch-uid")
	s.pass()
	s.cache = blind{s.client}
	s.launch("late", "batch", "batch-uid")
	delete(s.instances, "i-late") // EC2 does not return it yet either.
	for range 3 {
		s.pass()
	}
	if !s.exists(pool("batch", "", nil)) {
		t.Error("the pool was deleted while it has a NodeClaim that the cache has not")
	}
}

// blind is a cache that contains no NodeClaims yet.
type blind struct{ client.Reader }

func (b blind) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if _, ok := list.(*karpv1.NodeClaimList); ok {
		return nil
	}
	return b.Reader.List(ctx, list, options...)
}

// TestDriveAfterARevert checks that a removal that is no longer in the status counts as reverted, whatever this
// reconcile has read.
func TestDriveAfterARevert(t *testing.T) {
	s := newStage(t, pool("batch", "batch-uid", dynamic()))
	s.launch("a", "batch", "batch-uid")
	s.find(render.NodePool, "batch", "batch-uid")
	s.pass()
	believed := s.sync.DeepCopy()
	s.sync.Status.Removals = nil
	s.write()
	s.sync = believed
	if err := s.drive(); err != nil || len(s.last.Writes) > 0 {
		t.Errorf("done after a revert: %v, error %v", s.last.Writes, err)
	}
}

// TestDriveOnAnOldSpec checks that a reconcile with an outdated spec does nothing.
func TestDriveOnAnOldSpec(t *testing.T) {
	s := newStage(t, pool("batch", "batch-uid", dynamic()))
	s.find(render.NodePool, "batch", "batch-uid")
	s.pass()
	s.sync = s.sync.DeepCopy()
	s.sync.Generation = 0
	if err := s.drive(); err != nil || len(s.last.Writes) > 0 {
		t.Errorf("done by an old spec: %v, error %v", s.last.Writes, err)
	}
}

func TestDriveWithoutTheLease(t *testing.T) {
	s := newStage(t, pool("batch", "batch-uid", map[string]any{"limits": map[string]any{"cpu": "0"}}))
	s.launch("a", "batch", "batch-uid")
	s.find(render.NodePool, "batch", "batch-uid")
	s.pass()
	s.leader = errors.New("the lease is another's")
	if err := s.drive(); !errors.Is(err, s.leader) || len(s.last.Writes) > 0 {
		t.Errorf("done without the lease: %v, error %v", s.last.Writes, err)
	}
	if claims := s.claims(); !claims[0].DeletionTimestamp.IsZero() {
		t.Error("a NodeClaim was deleted without the lease")
	}
}

// TestDriveEndsOrphans checks that NodeClaims that have lost their pool because of --cascade=orphan are terminated, as
// Git requires.
func TestDriveEndsOrphans(t *testing.T) {
	s := newStage(t)
	s.launch("a", "batch", "batch-uid")
	claims := s.claims()
	claims[0].OwnerReferences = nil
	if err := s.client.Update(t.Context(), &claims[0]); err != nil {
		t.Fatal(err)
	}
	s.find(render.NodePool, "batch", "batch-uid")
	for range 3 {
		s.pass()
		s.karpenter("terminated")
	}
	for range 3 {
		s.pass()
	}
	if len(s.claims()) > 0 || len(s.sync.Status.Removals) > 0 {
		t.Errorf("left: NodeClaims %v, removals %+v", s.claims(), s.sync.Status.Removals)
	}
}

func TestDriveAsksOnceForAll(t *testing.T) {
	stopped := map[string]any{"limits": map[string]any{"cpu": "0"}}
	s := newStage(t, pool("batch", "batch-uid", stopped), pool("spot", "spot-uid", stopped))
	s.find(render.NodePool, "batch", "batch-uid")
	s.find(render.NodePool, "spot", "spot-uid")
	s.instances["i-x"] = instanceOf("i-x", "batch")
	s.instances["i-y"] = instanceOf("i-y", "spot")
	s.pass()
	s.pass()
	if s.questions != 1 {
		t.Errorf("EC2 was asked %d times in a pass over two removals", s.questions)
	}
	if want := s.now.Add(10 * time.Second); s.last.Again != want {
		t.Errorf("next pass at %v, want %v", s.last.Again, want)
	}
	s.now = s.now.Add(9 * time.Second)
	before := s.last.Removals
	if err := s.drive(); err != nil || s.questions != 1 {
		t.Errorf("EC2 was asked again before its time: %d questions, error %v", s.questions, err)
	}
	if diff := cmp.Diff(before, s.last.Removals); diff != "" {
		t.Errorf("a pass in between writes (-want +got):\n%s", diff)
	}
}

func TestDriveWithoutAnAnswer(t *testing.T) {
	s := newStage(t, pool("batch", "batch-uid", map[string]any{"limits": map[string]any{"cpu": "0"}}))
	s.find(render.NodePool, "batch", "batch-uid")
	s.pass()
	s.silence = errors.New("AWS throttles ec2:DescribeInstances")
	s.pass()
	r := s.sync.Status.Removals[0]
	if r.Reason != ReasonEC2NotAnswering || r.Message != s.silence.Error() || !s.exists(pool("batch", "", nil)) {
		t.Errorf("without EC2's answer: %+v", r)
	}
}

func instanceOf(id, pool string) cloud.Instance {
	return cloud.Instance{ID: id, Zone: "eu-west-1a", State: "running", Pool: pool}
}

// TestAnOverdueRemovalDoesNotSpin checks that no reconcile is requested for a time in the past.
func TestAnOverdueRemovalDoesNotSpin(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	cases := map[string]struct {
		askedAt time.Time
		phase   v1alpha1.RemovalPhase
		cloud   bool
		stalled bool
		want    time.Time
	}{
		"overdue, and the pass failed":      {phase: v1alpha1.RemovalDraining},
		"EC2 may be asked, and was not":     {phase: v1alpha1.RemovalVerifyingCloud, cloud: true, stalled: true, askedAt: now.Add(-time.Hour), want: now.Add(10 * time.Second)},
		"EC2 was asked just now":            {phase: v1alpha1.RemovalVerifyingCloud, cloud: true, stalled: true, askedAt: now, want: now.Add(10 * time.Second)},
		"EC2 was asked, and is asked again": {phase: v1alpha1.RemovalVerifyingCloud, cloud: true, stalled: true, askedAt: now.Add(-4 * time.Second), want: now.Add(6 * time.Second)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := &drive{Pass: Pass{Now: now, AskEvery: 10 * time.Second, StallAfter: time.Minute}, result: DriveResult{AskedAt: c.askedAt}}
			it := &item{known: true, after: v1alpha1.Removal{Phase: c.phase, LastProgress: metav1.NewTime(now.Add(-time.Hour))}}
			it.seen.Cloud.Open = c.cloud
			if c.stalled {
				at := metav1.NewTime(now)
				it.after.Stalled = &at
			}
			if d.wake(it); !d.result.Again.Equal(c.want) {
				t.Errorf("wakes at %s, want %s", d.result.Again, c.want)
			}
		})
	}
}

// TestAFailedPassOverAnOverdueRemoval checks that a failed reconcile requests no other one: the error is retried at its
// own interval.
func TestAFailedPassOverAnOverdueRemoval(t *testing.T) {
	s := newStage(t)
	overdue := v1alpha1.Removal{Kind: render.NodePool, Name: "batch", UID: "batch-uid", Phase: v1alpha1.RemovalDraining, LastProgress: metav1.NewTime(s.now.Add(-time.Hour))}
	w := World{Cache: s.client, Live: unreadable{s.client}, Writer: s.client, Home: Home{Reader: unreadable{s.client}, Writer: s.client}, StillLeader: func(context.Context) error { return nil }}
	result, err := Drive(t.Context(), w, Pass{
		Now: s.now, Sync: s.sync, StallAfter: time.Minute, AskEvery: time.Second,
		Arrivals: func(v1alpha1.Removal) Gate { return Gate{Open: true} },
	}, []v1alpha1.Removal{overdue})
	if !errors.Is(err, errUnreadable) {
		t.Fatal(err)
	}
	if !result.Again.IsZero() {
		t.Errorf("wakes at %s", result.Again)
	}
}

var errUnreadable = errors.New("the API server does not answer")

// unreadable is a reader that gets no response.
type unreadable struct{ client.Reader }

func (unreadable) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errUnreadable
}

// TestDriveNamesWhatEndsFirst checks that a removal names nodes in reserved capacity if Karpenter replaces the pool's
// nodes with its feature gate on, both while the removal proceeds and when it stalls. The gate is only read if it
// matters.
func TestDriveNamesWhatEndsFirst(t *testing.T) {
	for name, c := range map[string]struct {
		capacity string
		on       bool
		replaces bool
		names    bool
		asked    bool
	}{
		"reserved":             {capacity: karpv1.CapacityTypeReserved, on: true, replaces: true, names: true, asked: true},
		"the gate is off":      {capacity: karpv1.CapacityTypeReserved, replaces: true, asked: true},
		"on demand":            {capacity: karpv1.CapacityTypeOnDemand, on: true, replaces: true},
		"without replacements": {capacity: karpv1.CapacityTypeReserved, on: true},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := replaced(t, nil, "a", "b")
			s.pace.Replaces = c.replaces
			asked := false
			s.endsFirst = func() bool {
				asked = true
				return c.on
			}
			s.claim("b", func(claim *karpv1.NodeClaim) { claim.Labels[karpv1.CapacityTypeLabelKey] = c.capacity })
			s.replica("web-1", "web", "node-a")
			s.replica("web-2", "web", "node-b")
			const words = "reserved capacity: if the reservation is full, Karpenter terminates node node-b before its replacement is launched"
			says := func(when string) {
				t.Helper()
				if r := s.sync.Status.Removals[0]; strings.Contains(r.Message, words) != c.names {
					t.Errorf("%s: %s", when, r.Message)
				}
			}
			s.pass()
			s.pass()
			s.pass()
			says("it goes on")
			s.now = s.now.Add(time.Hour)
			s.pass()
			if r := s.sync.Status.Removals[0]; r.Stalled == nil {
				t.Fatalf("%+v", r)
			}
			says("it is stalled")
			if asked != c.asked {
				t.Errorf("the gate is asked for: %t", asked)
			}
		})
	}
}

// TestWhatEndsFirstOfAPoolThatStays checks that no nodes are named for a static pool or a deleted one, because
// Karpenter replaces none of them.
func TestWhatEndsFirstOfAPoolThatStays(t *testing.T) {
	o := Observation{Exists: true, TerminatesFirst: true, Turn: Turn{Replaces: true}, NodeClaims: []Claim{{Name: "a", Reserved: true}, {Name: "b", Reserved: true, Deleting: time.Unix(1, 0)}}}
	if got := o.terminatedFirst(); !strings.Contains(got, "node a before") {
		t.Errorf("%q", got)
	}
	static := o
	static.Static = true
	if got := static.terminatedFirst(); got != "" {
		t.Errorf("static: %q", got)
	}
	stalled := v1alpha1.Removal{Reason: ReasonNodeClaimsLeaving, Stalled: &metav1.Time{}}
	e := Evidence{Evidence: blocker.Evidence{Nodes: []blocker.Node{{Claim: "a", Stays: true}}}, Leader: Gate{Open: true}}
	o.Controller = Gate{Open: true}
	if got, _ := Diagnose(stalled, o, e); !strings.Contains(got, "waits for Karpenter to replace it; reserved capacity: if the reservation is full, Karpenter terminates node a before") {
		t.Errorf("%q", got)
	}
}
