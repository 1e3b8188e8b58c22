// Package finding is what each step of a reconcile may find beside its result: what it
// waits for, what an event is to say, and when the next reconcile is wanted. The reconcile
// joins the findings of all steps, and its conclusion says them.
package finding

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Findings are those of one step, or of a whole reconcile. The zero value has found
// nothing.
type Findings struct {
	// Waits are what is not there yet, the most important first.
	Waits []Wait
	// Notes become events.
	Notes []Note
	// WakeAt is the earliest time at which the next reconcile is wanted; zero if only a
	// watch or the interval has to wake it.
	WakeAt time.Time
}

// Wait is something that is not there yet.
type Wait struct {
	// On is what is waited for. Message says why, and does not change by itself.
	On, Message string
	// Since is since when it is waited for, and Stalls when it counts as stalled, since it may
	// not come by itself; both zero if it does.
	Since, Stalls time.Time
}

// Note is one event to come.
type Note struct {
	// Type is corev1.EventTypeNormal or corev1.EventTypeWarning.
	Type    string `redact:"-"`
	Reason  string `redact:"-"`
	Message string
	// Written reports whether it is about what the reconcile has written to the cluster: no later
	// pass finds that again.
	Written bool
}

// Wait notes something that is not there yet.
func (f *Findings) Wait(on, message string) {
	f.Waits = append(f.Waits, Wait{On: on, Message: message})
}

// WaitFor notes something that may not come by itself: a person has to look after it once
// it was waited for since a time for so long. A wait that begins now has no time yet.
func (f *Findings) WaitFor(on, message string, since time.Time, stallAfter time.Duration) {
	w := Wait{On: on, Message: message}
	if !since.IsZero() {
		w.Since, w.Stalls = since, since.Add(stallAfter)
	}
	f.Waits = append(f.Waits, w)
}

// Event notes a normal event.
func (f *Findings) Event(reason, message string) {
	f.Notes = append(f.Notes, Note{Type: corev1.EventTypeNormal, Reason: reason, Message: message})
}

// Warn notes a warning.
func (f *Findings) Warn(reason, message string) {
	f.Notes = append(f.Notes, Note{Type: corev1.EventTypeWarning, Reason: reason, Message: message})
}

// Wrote notes an event about what the reconcile has written to the cluster.
func (f *Findings) Wrote(eventType, reason, message string) {
	f.Notes = append(f.Notes, Note{Type: eventType, Reason: reason, Message: message, Written: true})
}

// WakeBy asks for a reconcile at a time, or sooner.
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
