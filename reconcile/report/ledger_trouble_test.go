package report

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/plumbline-dev/plumbline/internal/configmap"
)

// TestTheLedgerIsLost: the NodeSync's status says what was reported.
func TestTheLedgerIsLost(t *testing.T) {
	w := newWorld(t)
	must(t, w.say(applied("a")))
	w.deliver()
	must(t, w.client.Delete(t.Context(), w.object(t)))
	w.start()
	must(t, w.say(applied("a")))
	w.deliver()
	if len(w.posted) != 1 {
		t.Errorf("posted again: %v", w.said(1))
	}
	must(t, w.say(applied("b")))
	w.deliver()
	if diff := cmp.Diff([]string{"b success applied"}, w.said(1)); diff != "" {
		t.Error(diff)
	}
}

func TestSomebodyDeletesTheLedger(t *testing.T) {
	w := newWorld(t)
	must(t, w.say(applied("a")))
	must(t, w.client.Delete(t.Context(), w.object(t)))
	must(t, w.say(applied("b", "b")))
	w.deliver()
	if diff := cmp.Diff([]string{"a success applied", "b success applied"}, w.said(0)); diff != "" {
		t.Error(diff)
	}
}

// TestAnotherWriter: its ledger is read, and new events are recorded in it.
func TestAnotherWriter(t *testing.T) {
	w := newWorld(t)
	must(t, w.say(applied("a")))
	other := NewQueue(w.client, w.client)
	b := applied("b")
	b.Hosts, b.Context, b.At = []Target{onGitea}, "plumbline/prod/x", noon
	must(t, other.Record(t.Context(), w.sync, b))

	w.deliver()
	if l, _ := w.stored(); l.Head != "b" || len(l.Lanes[0].Waiting) != 0 {
		t.Errorf("stored %+v", l)
	}
	if diff := cmp.Diff([]string{"a success applied", "b success applied"}, w.said(0)); diff != "" {
		t.Error(diff)
	}
}

func TestAWriteThatFails(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "x", errors.New("changed"))
	for name, c := range map[string]struct{ err, want error }{
		"an API server that is away": {errors.New("no route"), nil},
		"a conflict that stays":      {conflict, errChanged},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.write = func() error { return c.err }
			if err := w.say(applied("a")); err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("error %v", err)
			}
			w.deliver()
			if len(w.posted) != 0 {
				t.Errorf("posted what does not stand in the cluster: %v", w.said(0))
			}
			w.write = nil
			must(t, w.say(applied("a")))
			w.deliver()
			if len(w.posted) != 1 {
				t.Errorf("posted %v", w.said(0))
			}
		})
	}
}

// TestALedgerThatCannotBeRead is not treated as missing.
func TestALedgerThatCannotBeRead(t *testing.T) {
	w := newWorld(t)
	w.read = func() error { return errors.New("no route") }
	if err := w.say(applied("a")); err == nil || !strings.Contains(err.Error(), "no route") || w.writes != 0 {
		t.Errorf("error %v, %d writes", err, w.writes)
	}
	if _, known := w.queue.Reported(w.sync); known {
		t.Error("what was said is known without having been read")
	}
}

// TestADeliveryThatCannotBeWritten is written later, and not posted twice.
func TestADeliveryThatCannotBeWritten(t *testing.T) {
	w := newWorld(t)
	must(t, w.say(applied("a")))
	w.write = func() error { return errors.New("no route") }
	w.deliver()
	w.write = nil
	w.deliver()
	if l, _ := w.stored(); len(l.Lanes[0].Waiting) != 1 {
		t.Errorf("it is written before its time: %+v", l)
	}
	if _, wait := w.deliverer.due(); wait > lookAgain {
		t.Errorf("the next look is in %s", wait)
	}
	w.now = w.now.Add(lookAgain)
	w.deliver()
	if l, _ := w.stored(); len(l.Lanes[0].Waiting) != 0 || len(w.posted) != 1 {
		t.Errorf("posted %v, stored %+v", w.said(0), l)
	}
}

func TestAnObjectInTheWay(t *testing.T) {
	w := newWorld(t)
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.sync.Namespace, Name: SubjectWhole.ObjectName(w.sync.Name)}}
	must(t, w.client.Create(t.Context(), foreign))
	if err := w.say(applied("a")); err == nil || !strings.Contains(err.Error(), "in the way") {
		t.Errorf("error %v", err)
	}
}

// TestTheLedgerOfAFormerNodeSync of the same name is not deleted yet.
func TestTheLedgerOfAFormerNodeSync(t *testing.T) {
	w := newWorld(t)
	must(t, w.say(applied("a")))
	w.sync.UID, w.sync.Status.Reported = "22", nil
	must(t, w.say(applied("b")))
	w.deliver()
	if diff := cmp.Diff([]string{"b success applied"}, w.said(0)); diff != "" {
		t.Error(diff)
	}
	if ref := metav1.GetControllerOf(w.object(t)); ref.UID != "22" {
		t.Errorf("owner %+v", ref)
	}
}

func TestABrokenLedgerIsNamed(t *testing.T) {
	w := newWorld(t)
	must(t, w.say(applied("a")))
	object := w.object(t)
	object.Data[dataKey] = "{"
	must(t, w.client.Update(t.Context(), object))
	w.start()
	w.deliver()
	if err := w.say(applied("a")); err == nil || !strings.Contains(err.Error(), "delete it to have it recreated") {
		t.Errorf("error %v", err)
	}
}

// TestAnImmutableLedger shows what the error says to do, whether it became immutable before or after it was read, and
// that a deleted one is written again.
func TestAnImmutableLedger(t *testing.T) {
	w := newWorld(t)
	must(t, w.say(applied("a")))
	object := w.object(t)
	object.Immutable = new(bool)
	*object.Immutable = true
	must(t, w.client.Update(t.Context(), object))
	for _, read := range []string{"before", "after"} {
		var stuck *configmap.StuckError
		if err := w.say(applied("b")); !errors.As(err, &stuck) || !strings.Contains(err.Error(), "kubectl get configmap -n "+w.sync.Namespace+" "+SubjectWhole.ObjectName(w.sync.Name)+" -o yaml |") {
			t.Fatalf("it was read %s: error %v", read, err)
		}
		w.start()
	}
	must(t, w.client.Delete(t.Context(), w.object(t)))
	must(t, w.say(applied("b")))
	if l, _ := w.stored(); l.Head != "b" {
		t.Errorf("stored %+v", l)
	}
}
