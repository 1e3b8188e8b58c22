package fault

import (
	"errors"
	"strings"
)

// Class says what an error means for the next pass.
type Class int

// The classes, the gravest last.
const (
	// Superseded: a newer state of the world is known; look again at once.
	Superseded Class = iota
	// Waiting: nothing is wrong, something is not there yet. A watch wakes us.
	Waiting
	// Transient: it may go well by itself; again after retryInterval.
	Transient
	// Terminal: a person has to change the commit, the NodeSync or the cluster.
	Terminal
)

// String returns the class's name.
func (c Class) String() string {
	return [...]string{"Superseded", "Waiting", "Transient", "Terminal"}[c]
}

// Error is a classified error.
type Error struct {
	Class Class
	// Reason is the word for a condition's reason, CamelCase.
	Reason string
	// Err says what was tried, on what, and what to do about it.
	Err error
	// Short is the Brief where that of Err is not to be shown; nil where it is.
	Short *Brief
}

// Error returns the message of what went wrong and, where the API server's words
// leave it to the reader, what to do about it.
func (e *Error) Error() string {
	message := e.Err.Error()
	for _, remedy := range []func(string) string{missingRule, conversion} {
		// One that is wrapped in another has said it already.
		if words := remedy(message); words != "" && !strings.Contains(message, words) {
			return message + ": " + words
		}
	}
	return message
}

// Map is the error with its texts changed: class and reason stay, and what it wraps is gone.
func (e *Error) Map(change func(string) string) *Error {
	brief := e.Brief().Map(change)
	return &Error{Class: e.Class, Reason: e.Reason, Err: errors.New(change(e.Error())), Short: &brief}
}

// Unwrap returns what went wrong.
func (e *Error) Unwrap() error { return e.Err }
