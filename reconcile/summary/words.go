package summary

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/plumbline-dev/plumbline/redact"
)

// Age is how long before now something began, as kubectl says it.
func Age(at metav1.Time, now time.Time) string {
	if at.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(at.Time))
}

// LastedFor says for how long something has been so, at the end of a line.
func LastedFor(since *metav1.Time, now time.Time) string {
	if since.IsZero() {
		return ""
	}
	return ", for " + Age(*since, now)
}

// OneLine keeps a message from breaking a table.
func OneLine(message string) string {
	first, _, more := strings.Cut(message, "\n")
	if more {
		first += " …"
	}
	return redact.Visible(first)
}

// OrNone is a word, or that there is none yet.
func OrNone(word string) string {
	if word == "" {
		return "none yet"
	}
	return word
}
