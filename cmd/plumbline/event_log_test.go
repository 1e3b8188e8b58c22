package main

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
)

// TestEventsAreLogged: the log contains what happened, the NodeSync and the revision.
func TestEventsAreLogged(t *testing.T) {
	var logged []string
	log := funcr.New(func(_, line string) { logged = append(logged, line) }, funcr.Options{})
	sent := record.NewFakeRecorder(2)
	events := eventLog{sent, log}
	sync := verdicts()["in-sync"]
	events.AnnotatedEventf(sync, map[string]string{"plumbline.dev/revision": "main@sha1:1"}, corev1.EventTypeWarning, "Held", "%d nodes", 3)
	events.AnnotatedEventf(sync, nil, corev1.EventTypeNormal, "Applied", "NodePool/batch: Update")
	want := []string{
		`"level"=0 "msg"="3 nodes" "NodeSync"={"name"="prod" "namespace"="fleet"} "reason"="Held" "revision"="main@sha1:1" "warning"=true`,
		`"level"=0 "msg"="NodePool/batch: Update" "NodeSync"={"name"="prod" "namespace"="fleet"} "reason"="Applied"`,
	}
	if diff := cmp.Diff(want, logged); diff != "" {
		t.Errorf("logged (-want +got):\n%s", diff)
	}
	if n := len(sent.Events); n != 2 {
		t.Errorf("%d events are sent, want 2", n)
	}
}

// slow is a notification-controller that does not respond until it is released.
type slow struct {
	record.EventRecorder

	answer chan struct{}
	got    chan string
}

func (s *slow) AnnotatedEventf(_ runtime.Object, annotations map[string]string, _, reason, _ string, _ ...any) {
	<-s.answer
	s.got <- reason + " " + annotations["plumbline.dev/revision"]
}

// TestEventsAreForwardedBesidePasses: a receiver that hangs does not delay reconciles, and gets events in order; those
// beyond the queue are still recorded.
func TestEventsAreForwardedBesidePasses(t *testing.T) {
	recorded := record.NewFakeRecorder(maxForwarded + 10)
	to := &slow{answer: make(chan struct{}), got: make(chan string, maxForwarded+10)}
	f := &forwarder{EventRecorder: eventLog{recorded, logr.Discard()}, to: to, waiting: make(chan func(), maxForwarded)}
	sync := verdicts()["in-sync"]
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.AnnotatedEventf(sync, map[string]string{"plumbline.dev/revision": "1"}, corev1.EventTypeWarning, "Held", "x")
		f.AnnotatedEventf(sync, map[string]string{"plumbline.dev/revision": "2"}, corev1.EventTypeNormal, "Succeeded", "x")
		for range maxForwarded {
			f.AnnotatedEventf(sync, nil, corev1.EventTypeNormal, "Applied", "x")
		}
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("a pass waits for the notification-controller")
	}
	if n := len(recorded.Events); n != maxForwarded+2 {
		t.Errorf("%d events are recorded", n)
	}
	go func() { _ = f.run(t.Context()) }() // it stops with the test
	close(to.answer)
	for _, want := range []string{"Held 1", "Succeeded 2", "Applied "} {
		if got := <-to.got; got != want {
			t.Errorf("forwarded %q, want %q", got, want)
		}
	}
}
