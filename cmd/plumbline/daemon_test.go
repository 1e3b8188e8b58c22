package main

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
)

// sink takes events as the API server does.
type sink chan string

func (s sink) Create(e *corev1.Event) (*corev1.Event, error) {
	s <- e.Message
	return e, nil
}
func (s sink) Update(e *corev1.Event) (*corev1.Event, error) { return s.Create(e) }
func (s sink) Patch(e *corev1.Event, _ []byte) (*corev1.Event, error) {
	return s.Create(e)
}

// TestEventsOfALargeCommit all arrive.
func TestEventsOfALargeCommit(t *testing.T) {
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	broadcaster, sent := newBroadcaster(), make(sink)
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(sent)
	var recorder record.EventRecorder = broadcaster.NewRecorder(scheme, corev1.EventSource{Component: "plumbline"})
	const many = 90
	for i := range many {
		recorder.Event(nodeSync("prod"), corev1.EventTypeNormal, "Removed", fmt.Sprintf("NodePool/%d is gone", i))
	}
	for i := range many {
		if got, want := <-sent, fmt.Sprintf("NodePool/%d is gone", i); got != want {
			t.Fatalf("%q, want %q", got, want)
		}
	}
}
