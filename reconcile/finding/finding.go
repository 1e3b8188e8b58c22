// Package finding is what each step of a reconcile may report besides its result: what it waits for, events, and when
// the next reconcile is needed. The reconcile joins the findings of all steps, and its conclusion reports them.
package finding

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Findings are those of one step, or of a whole reconcile. The zero value is empty.
type Findings struct {
	// Waits are what is not ready yet, the most important first.
	Waits []Wait
	// Notes become events.
	Notes []Note
	// WakeAt is the earliest time at which the next reconcile is needed; zero if only a watch or the interval triggers
	// it.
	WakeAt time.Time
}

// Wait is something that is not ready yet.
type Wait struct {
	// On is what is waited for. Message is the reason, and does not change by itself.
	On, Message string
	// Since is when the wait started, and Stalls when it counts as stalled because it may not resolve by itself; both
	// are zero if it does.
	Since, Stalls time.Time
}

// Note is one future event.
type Note struct {
	// Type is corev1.EventTypeNormal or corev1.EventTypeWarning.
	Type    string `redact:"-"`
	Reason  string `redact:"-"`
	Message string
	// Written reports whether it is about a write of the reconcile to the cluster, which no later reconcile finds
	// again.
	Written bool
}

// Wait records something that is not ready yet.
func (f *Findings) Wait(on, message string) {
	f.Waits = append(f.Waits, Wait{On: on, Message: message})
}

// WaitFor records something that may not resolve by itself: a person has to check it after a wait of stallAfter. A wait
// that starts now has no time yet.
func (f *Findings) WaitFor(on, message string, since time.Time, stallAfter time.Duration) {
	w := Wait{On: on, Message: message}
	if !since.IsZero() {
		w.Since, w.Stalls = since, since.Add(stallAfter)
	}
	f.Waits = append(f.Waits, w)
}

// Event records a normal event.
func (f *Findings) Event(reason, message string) {
	f.Notes = append(f.Notes, Note{Type: corev1.EventTypeNormal, Reason: reason, Message: message})
}

// Warn records a warning.
func (f *Findings) Warn(reason, message string) {
	f.Notes = append(f.Notes, Note{Type: corev1.EventTypeWarning, Reason: reason, Message: message})
}

// Wrote records an event about a write of the reconcile to the cluster.
func (f *Findings) Wrote(eventType, reason, message string) {
	f.Notes = append(f.Notes, Note{Type: eventType, Reason: reason, Message: message, Written: true})
}

// WakeBy requests a reconcile at a time, or earlier.
func (f *Findings) WakeBy(at time.Time) {
	if f.WakeAt.IsZero() || at.Before(f.WakeAt) {
		f.WakeAt = at
	}
}

// Join adds the findings of another step.
func (f *Findings) Join(other Findings) {
	f.Waits = append(f.Waits, other.Waits...)
	f.Notes = append(f.Notes, other.Notes...)
	if !other.WakeAt.IsZero() {
		f.WakeBy(other.WakeAt)
	}
}
