package removal

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/internal/configmap"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// TestDriveWhenTheNameIsTaken checks that the removal of a pool that was recreated under its name completes, and that
// the new pool and its nodes stay.
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

// TestDriveLosesNoNote checks that of two concurrent writers of the record, neither loses an instance of the other.
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

// TestDriveWithAnImmutableRecord checks that nothing is terminated that cannot be recorded, that the error says what to
// do, and that the removal then continues with the whole record.
func TestDriveWithAnImmutableRecord(t *testing.T) {
	s := newStage(t, pool("batch", "batch-uid", dynamic()))
	s.launch("a", "batch", "batch-uid")
	s.find(render.NodePool, "batch", "batch-uid")
	s.pass()
	s.launch("b", "batch", "batch-uid")
	immutable := func(is bool) {
		object := s.recorded()
		object.Immutable = &is
		if err := s.client.Update(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	immutable(true)
	for range 3 {
		var stuck *configmap.StuckError
		if err := s.drive(); !errors.As(err, &stuck) || !strings.Contains(err.Error(), "kubectl get configmap -n plumbline-system plumbline-prod -o yaml | sed") {
			t.Fatalf("got %v", err)
		}
	}
	for _, claim := range s.claims() {
		if claim.DeletionTimestamp != nil {
			t.Errorf("NodeClaim %s was ended", claim.Name)
		}
	}
	immutable(false)
	s.pass()
	if record := s.record()["batch-uid"]; !strings.Contains(record, "i-a") || !strings.Contains(record, "i-b") {
		t.Errorf("record %s", record)
	}
}

// TestDriveWithAnUnreadableRecord checks that the error names the entry.
func TestDriveWithAnUnreadableRecord(t *testing.T) {
	s := newStage(t, pool("batch", "batch-uid", dynamic()))
	s.launch("a", "batch", "batch-uid")
	s.find(render.NodePool, "batch", "batch-uid")
	s.pass()
	object := s.recorded()
	object.Data["batch-uid"] = "{"
	if err := s.client.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	var stuck *configmap.StuckError
	if err := s.drive(); !errors.As(err, &stuck) || !strings.Contains(err.Error(), "key batch-uid") {
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

// TestDriveByAClockThatIsPutBack checks that notes and queries with a time in the future delay nothing until then.
func TestDriveByAClockThatIsPutBack(t *testing.T) {
	batch := pool("batch", "batch-uid", dynamic())
	s := newStage(t, batch)
	s.launch("a", "batch", "batch-uid")
	delete(s.instances, "i-a") // EC2 does not return it yet
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

// TestDriveOvertaken checks that a pool whose status Karpenter writes just before the deletion is read again in the
// same reconcile, without another query to EC2.
func TestDriveOvertaken(t *testing.T) {
	s := newStage(t, pool("batch", "batch-uid", map[string]any{"limits": map[string]any{"cpu": "0"}}))
	s.find(render.NodePool, "batch", "batch-uid")
	s.pass() // recorded
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

// TestDriveWhatAnotherHasTaken checks that no node is terminated of a pool that another NodeSync applies after the
// cache was read.
func TestDriveWhatAnotherHasTaken(t *testing.T) {
	ours := pool("batch", "batch-uid", map[string]any{"limits": map[string]any{"cpu": "0"}})
	s := newStage(t, ours)
	s.launch("a", "batch", "batch-uid")
	s.find(render.NodePool, "batch", "batch-uid")
	s.pass() // recorded, and EC2 has returned the instance
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

// before is a cache with an old version of a pool.
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
