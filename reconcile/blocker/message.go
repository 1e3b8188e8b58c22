package blocker

import (
	"strings"

	"github.com/plumbline-dev/plumbline/reconcile/finding"
)

const waitsFor = "waits for "

// Say is the part of a message that says what nodes wait for: its last one.
func Say(all []string) string { return waitsFor + finding.Few(all, "; ") }

// Beside joins what else there is to say and what nodes wait for. Either may be empty.
func Beside(first, say string) string {
	if first == "" || say == "" {
		return first + say
	}
	return first + "; " + say
}

// Said is what a message says that nodes wait for; empty where it does not.
func Said(message string) string {
	if strings.HasPrefix(message, waitsFor) {
		return message
	}
	if i := strings.Index(message, "; "+waitsFor); i >= 0 {
		return message[i+len("; "):]
	}
	return ""
}
