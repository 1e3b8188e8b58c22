package main

import (
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
)

// TestEventsAreLogged: the log says what happened, of which NodeSync and revision.
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
