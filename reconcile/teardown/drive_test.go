package teardown

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
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

// What the cache still has is not what counts for a deletion.
func TestDriveOnAStaleCache(t *testing.T) {
	stopped := map[string]any{"limits": map[string]any{"cpu": "0"}}
	s := newStage(t, pool("batch", "batch-uid", stopped))
	s.find(render.NodePool, "batch", "batch-uid")
	s.pass()
	s.cache = blind{s.client}
	s.launch("late", "batch", "batch-uid")
	delete(s.instances, "i-late") // EC2 does not show it yet either.
	for range 3 {
		s.pass()
	}
	if !s.exists(pool("batch", "", nil)) {
		t.Error("the pool was deleted while it has a NodeClaim that the cache has not")
	}
}

// blind is a cache that no NodeClaim has come to.
type blind struct{ client.Reader }

func (b blind) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if _, ok := list.(*karpv1.NodeClaimList); ok {
		return nil
	}
	return b.Reader.List(ctx, list, options...)
}

// A removal that the status has no more was reverted, whatever this pass believes.
func TestDriveAfterARevert(t *testing.T) {
	s := newStage(t, pool("batch", "batch-uid", dynamic()))
	s.launch("a", "batch", "batch-uid")
	s.find(render.NodePool, "batch", "batch-uid")
	s.pass()
	believed := s.sync.DeepCopy()
	s.sync.Status.Removals = nil
	s.write()
	s.sync = believed
	if err := s.drive(); err != nil || len(s.last.Deeds) > 0 {
		t.Errorf("done after a revert: %v, error %v", s.last.Deeds, err)
	}
}

// A spec that is another one by now is not acted for.
func TestDriveOnAnOldSpec(t *testing.T) {
	s := newStage(t, pool("batch", "batch-uid", dynamic()))
	s.find(render.NodePool, "batch", "batch-uid")
	s.pass()
	s.sync = s.sync.DeepCopy()
	s.sync.Generation = 0
	if err := s.drive(); err != nil || len(s.last.Deeds) > 0 {
		t.Errorf("done by an old spec: %v, error %v", s.last.Deeds, err)
	}
}

func TestDriveWithoutTheLease(t *testing.T) {
	s := newStage(t, pool("batch", "batch-uid", map[string]any{"limits": map[string]any{"cpu": "0"}}))
	s.launch("a", "batch", "batch-uid")
	s.find(render.NodePool, "batch", "batch-uid")
	s.pass()
	s.leader = errors.New("the lease is another's")
	if err := s.drive(); !errors.Is(err, s.leader) || len(s.last.Deeds) > 0 {
		t.Errorf("done without the lease: %v, error %v", s.last.Deeds, err)
	}
	if claims := s.claims(); !claims[0].DeletionTimestamp.IsZero() {
		t.Error("a NodeClaim was deleted without the lease")
	}
}

// The pool was made anew under its name: the old one's removal ends, and the new
// one and its nodes live.
func TestDriveWhenTheNameIsTaken(t *testing.T) {
	s := newStage(t, pool("batch", "new-uid", dynamic()))
	s.launch("new", "batch", "new-uid")
	s.find(render.NodePool, "batch", "old-uid")
	for range 4 {
		s.pass()
	}
	if len(s.sync.Status.Removals) > 0 {
		t.Errorf("the removal of what is gone never ends: %+v", s.sync.Status.Removals)
	}
	if claims := s.claims(); !s.exists(pool("batch", "", nil)) || !claims[0].DeletionTimestamp.IsZero() {
		t.Error("the new pool was taken for the old one")
	}
}

// NodeClaims that have lost their pool by --cascade=orphan leave as Git says.
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

// Two writers of the record: neither loses an instance of the other.
func TestDriveLosesNoNote(t *testing.T) {
	s := newStage(t, pool("batch", "batch-uid", dynamic()))
	s.launch("a", "batch", "batch-uid")
	s.find(render.NodePool, "batch", "batch-uid")
	s.pass()
	first, err := loadRecords(t.Context(), s.client, s.sync)
	if err != nil {
		t.Fatal(err)
	}
	second, err := loadRecords(t.Context(), s.client, s.sync)
	if err != nil {
		t.Fatal(err)
	}
	it := &item{before: s.sync.Status.Removals[0]}
	first.note(it, Note{Fresh: []string{"first"}})
	second.note(it, Note{Fresh: []string{"second"}})
	if err := first.save(t.Context(), s.client, s.sync); err != nil {
		t.Fatal(err)
	}
	if err := second.save(t.Context(), s.client, s.sync); err == nil {
		t.Error("the second writer wrote over the first")
	}
	if !strings.Contains(s.record()["batch-uid"], "first") {
		t.Errorf("record %v", s.record())
	}
}

func TestDriveRefusesAForeignRecord(t *testing.T) {
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "plumbline-system", Name: RecordName("prod")}}
	s := newStage(t, pool("batch", "batch-uid", dynamic()), foreign)
	s.find(render.NodePool, "batch", "batch-uid")
	if err := s.drive(); err == nil || !strings.Contains(err.Error(), "in the way") {
		t.Errorf("got %v", err)
	}
}

func TestDriveAHeldRemoval(t *testing.T) {
	s := newStage(t, pool("batch", "batch-uid", dynamic()))
	s.launch("a", "batch", "batch-uid")
	s.find(render.NodePool, "batch", "batch-uid")
	s.holds = map[types.UID]Hold{"batch-uid": {Reason: "Held", Message: "the last pool"}}
	for range 3 {
		s.pass()
	}
	if r := s.sync.Status.Removals[0]; r.Phase != v1alpha1.RemovalHeld || r.Message != "the last pool" || s.record() != nil {
		t.Errorf("removal %+v, record %v", r, s.record())
	}
	s.holds = nil
	if got := s.pass(); got[0] != "batch Pacing" || s.record() == nil {
		t.Errorf("released: %v, record %v", got, s.record())
	}
}

func instanceOf(id, pool string) cloud.Instance {
	return cloud.Instance{ID: id, Zone: "eu-west-1a", State: "running", Pool: pool}
}

// TestDriveByAClockThatIsPutBack: what was noted and asked ahead of now holds
// nothing up until then.
func TestDriveByAClockThatIsPutBack(t *testing.T) {
	batch := pool("batch", "batch-uid", dynamic())
	s := newStage(t, batch)
	s.launch("a", "batch", "batch-uid")
	delete(s.instances, "i-a") // EC2 does not show it yet
	s.find(render.NodePool, "batch", "batch-uid")
	for range 3 {
		s.pass()
	}
	s.karpenter("running")
	delete(s.instances, "i-a")
	s.questions = 0
	s.now = s.now.Add(-24 * time.Hour)
	s.pass()
	if s.questions != 1 {
		t.Errorf("EC2 was asked %d times in the pass after the jump, want once", s.questions)
	}
	for range 2 * settledAnswers {
		s.pass()
	}
	if !s.exists(batch) {
		t.Fatal("it is gone after a few minutes, and EC2 has never shown the instance")
	}
	for range 60 {
		s.pass()
	}
	if s.exists(batch) {
		t.Errorf("it never ends: %+v", s.last.Removals)
	}
}

// TestDriveOvertaken: Karpenter writes a pool's status just before it is deleted.
// It is looked at again in the same pass, and EC2 is not asked once more.
func TestDriveOvertaken(t *testing.T) {
	s := newStage(t, pool("batch", "batch-uid", map[string]any{"limits": map[string]any{"cpu": "0"}}))
	s.find(render.NodePool, "batch", "batch-uid")
	s.pass() // written down
	times := 0
	s.others = func() {
		live := pool("batch", "", nil)
		if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(live), live); err != nil || times > 0 {
			return
		}
		times++
		live.SetAnnotations(map[string]string{"written": "by another"})
		if err := s.client.Update(t.Context(), live); err != nil {
			t.Fatal(err)
		}
	}
	s.pass()
	if times == 0 || s.exists(pool("batch", "", nil)) || s.questions != 1 {
		t.Errorf("overtaken %d times, still there: %t, EC2 was asked %d times", times, s.exists(pool("batch", "", nil)), s.questions)
	}
}

// TestDriveWhatAnotherHasTaken: another NodeSync applies the pool after the cache was
// read. None of its nodes is ended.
func TestDriveWhatAnotherHasTaken(t *testing.T) {
	ours := pool("batch", "batch-uid", map[string]any{"limits": map[string]any{"cpu": "0"}})
	s := newStage(t, ours)
	s.launch("a", "batch", "batch-uid")
	s.find(render.NodePool, "batch", "batch-uid")
	s.pass() // recorded, and EC2 has shown the instance
	s.cache = before{s.client, ours}
	live := pool("batch", "", nil)
	if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(live), live); err != nil {
		t.Fatal(err)
	}
	live.SetLabels(map[string]string{v1alpha1.OwnerLabel: "plumbline-system.other"})
	if err := s.client.Update(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		s.pass()
	}
	if claims := s.claims(); len(claims) != 1 || !claims[0].DeletionTimestamp.IsZero() || s.last.Removals[0].Reason != ReasonOtherNodeSync {
		t.Errorf("claims %v, removal %+v", claims, s.last.Removals[0])
	}
}

// before is a cache that has a pool as it was.
type before struct {
	client.Reader
	pool *unstructured.Unstructured
}

func (b before) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if stale, ok := object.(*unstructured.Unstructured); ok && key.Name == b.pool.GetName() && stale.GetKind() == b.pool.GetKind() {
		b.pool.DeepCopyInto(stale)
		return nil
	}
	return b.Reader.Get(ctx, key, object, options...)
}
