package main

import (
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// eventLog logs each event of a NodeSync as well: what happened stays in the log when events
// have expired.
type eventLog struct {
	record.EventRecorder

	log logr.Logger
}

// loggedName is an object as controller-runtime's lines name it.
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
