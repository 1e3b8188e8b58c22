package summary

import (
	"fmt"
	"time"

	"github.com/dustin/go-humanize/english"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/recorder"
	"github.com/plumbline-dev/plumbline/redact"
)

// Cause is why a node ended, with its detail.
func Cause(r recorder.Record) string {
	if r.Detail == "" {
		return redact.Visible(string(r.Cause))
	}
	return redact.Visible(fmt.Sprintf("%s (%s)", r.Cause, r.Detail))
}

// Gone is how long ago a node was gone, or that it is ending.
func Gone(r recorder.Record, now time.Time) string {
	if r.Gone.IsZero() {
		return "ending"
	}
	return Age(r.Gone, now)
}

// Pods is how many pods were on a node when its end began; empty where they were not counted.
func Pods(r recorder.Record) string {
	if r.Pods == nil {
		return ""
	}
	return english.Plural(*r.Pods, "pod", "")
}

// Gap says of which time nothing is recorded.
func Gap(g recorder.Gap) string {
	return fmt.Sprintf("not recorded from %s to %s, as the leader changed: what ended in between is missing", Stamp(g.From), Stamp(g.To))
}

// Stamp is a time to the second.
func Stamp(at metav1.Time) string { return at.UTC().Format("2006-01-02T15:04:05Z") }
