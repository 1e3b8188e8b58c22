package main

import (
	"context"
	"fmt"

	"github.com/fluxcd/pkg/runtime/events"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// eventLog also logs each event of a NodeSync: the log is kept after events expire.
type eventLog struct {
	record.EventRecorder

	log logr.Logger
}

// loggedName names an object in the form of controller-runtime's log lines.
type loggedName struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

// AnnotatedEventf logs an event, and sends it.
func (l eventLog) AnnotatedEventf(object runtime.Object, annotations map[string]string, kind, reason, format string, args ...any) {
	l.EventRecorder.AnnotatedEventf(object, annotations, kind, reason, format, args...)
	about := loggedName{}
	if named, err := meta.Accessor(object); err == nil {
		about = loggedName{named.GetName(), named.GetNamespace()}
	}
	values := []any{"NodeSync", about, "reason", reason}
	if revision := annotations[v1alpha1.RevisionAnnotation]; revision != "" {
		values = append(values, "revision", revision)
	}
	if kind == corev1.EventTypeWarning {
		values = append(values, "warning", true)
	}
	l.log.Info(fmt.Sprintf(format, args...), values...)
}

// maxForwarded is the number of events that may wait to be forwarded; further ones are only logged.
const maxForwarded = 256

// newEventRecorder returns a recorder that sends events to the API server, logs them, and, if there is an address,
// forwards them to Flux's notification-controller.
func newEventRecorder(mgr ctrl.Manager, address string) (record.EventRecorder, error) {
	recorder, err := events.NewRecorder(mgr, ctrl.Log, address, controllerName)
	if err != nil {
		return nil, fmt.Errorf("read --events-addr: %w", err)
	}
	logged := eventLog{recorder.EventRecorder, ctrl.Log.WithName("events")}
	if address == "" {
		return logged, nil
	}
	recorder.EventRecorder = unsent{}
	f := &forwarder{EventRecorder: logged, to: recorder, waiting: make(chan func(), maxForwarded)}
	if err := mgr.Add(manager.RunnableFunc(f.run)); err != nil {
		return nil, fmt.Errorf("add what forwards events: %w", err)
	}
	return f, nil
}

// forwarder forwards events using the recorder of Flux's controllers, in the background: that recorder retries for up
// to half a minute if the address does not respond, which must not delay a reconcile.
type forwarder struct {
	record.EventRecorder

	to      record.EventRecorder
	waiting chan func()
}

// AnnotatedEventf records an event, and queues it for forwarding.
func (f *forwarder) AnnotatedEventf(object runtime.Object, annotations map[string]string, kind, reason, format string, args ...any) {
	f.EventRecorder.AnnotatedEventf(object, annotations, kind, reason, format, args...)
	object = object.DeepCopyObject()
	select {
	case f.waiting <- func() { f.to.AnnotatedEventf(object, annotations, kind, reason, format, args...) }:
	default:
		ctrl.Log.Info("event not forwarded: the queue is full", "reason", reason, "waiting", maxForwarded)
	}
}

// run forwards one event after another until the daemon stops.
func (f *forwarder) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case forward := <-f.waiting:
			forward()
		}
	}
}

// unsent keeps Flux's recorder from sending events to the API server a second time.
type unsent struct{ record.EventRecorder }

// AnnotatedEventf does nothing.
func (unsent) AnnotatedEventf(runtime.Object, map[string]string, string, string, string, ...any) {
}
