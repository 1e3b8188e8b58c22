package main

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
)

// slow is a notification-controller that does not answer until it is let.
type slow struct {
	record.EventRecorder

	answer chan struct{}
	got    chan string
}

func (s *slow) AnnotatedEventf(_ runtime.Object, annotations map[string]string, _, reason, _ string, _ ...any) {
	<-s.answer
	s.got <- reason + " " + annotations["plumbline.dev/revision"]
}

// TestEventsAreForwardedBesidePasses: one that hangs keeps no pass waiting, and gets them in order;
// what is too much is recorded all the same.
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
	go func() { _ = f.run(t.Context()) }() // it ends with the test
	close(to.answer)
	for _, want := range []string{"Held 1", "Succeeded 2", "Applied "} {
		if got := <-to.got; got != want {
			t.Errorf("forwarded %q, want %q", got, want)
		}
	}
}
