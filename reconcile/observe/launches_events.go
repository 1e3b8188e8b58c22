package observe

import (
	corev1 "k8s.io/api/core/v1"
	apifields "k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// noInstanceTypes is the reason of Karpenter's event on a NodePool of which no instance type that is available meets the
// requirements (sigs.k8s.io/karpenter pkg/events/reason.go and pkg/controllers/provisioning/scheduling/events.go, 1.14.1).
// It creates no NodeClaim then, and no condition of the NodePool changes: it stays Ready. The event comes again each minute
// for as long as a pod waits.
const noInstanceTypes = "NoCompatibleInstanceTypes"

// poolEvents say what the watch cache holds of events: those of this reason.
func poolEvents() cache.ByObject {
	return cache.ByObject{
		Namespaces: map[string]cache.Config{corev1.NamespaceDefault: {}},
		Field:      apifields.SelectorFromSet(apifields.Set{"reason": noInstanceTypes}),
		Transform:  trimEvent,
	}
}

// trimEvent keeps what SeeEvent reads.
func trimEvent(obj any) (any, error) {
	e, ok := obj.(*corev1.Event)
	if !ok {
		return obj, nil
	}
	trimMetadata(e)
	return &corev1.Event{ObjectMeta: e.ObjectMeta, InvolvedObject: e.InvolvedObject, Reason: e.Reason, Message: e.Message, LastTimestamp: e.LastTimestamp}, nil
}

// SeeEvent looks at an event, and reports whether it is news of the NodePool that it is about. What AWS or Karpenter said of
// a NodeClaim tells more, and stays.
func (l *Launches) SeeEvent(e *corev1.Event) (news bool) {
	if e.Reason != noInstanceTypes || e.InvolvedObject.Name == "" {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	pool := e.InvolvedObject.Name
	before, known := l.failed[pool]
	known = known && l.Now().Before(before.At.Add(FailedLaunchLasts))
	if known && (before.NodeClaim != "" || !before.At.Before(e.LastTimestamp.Time)) || !l.Now().Before(e.LastTimestamp.Add(FailedLaunchLasts)) {
		return false
	}
	if l.failed == nil {
		l.failed = map[string]FailedLaunch{}
	}
	now := FailedLaunch{made: e.LastTimestamp, At: e.LastTimestamp.Time, Words: "Karpenter finds no instance type for it: " + e.Message}
	if known {
		now.under = before.under
	}
	l.failed[pool] = now
	return !known || before.Words != now.Words
}

// Under drops what an event said of a pool before its definitions changed. The definitions are those that the pool has now;
// equal texts are equal definitions.
func (l *Launches) Under(pool, definitions string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, known := l.failed[pool]
	switch {
	case !known || now.NodeClaim != "":
	case now.under == "":
		now.under = definitions
		l.failed[pool] = now
	case now.under != definitions:
		delete(l.failed, pool)
	}
}
