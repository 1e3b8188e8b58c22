package main

import (
	"cmp"
	"errors"
	"math"
	"slices"
)

// The exit codes of the CLI.
const (
	exitDone    = 0 // done, or no change
	exitFailed  = 1 // an error
	exitChanges = 2 // changes, or drift
	exitHeld    = 3 // held by the guard
	exitStalled = 4 // stalled, or timed out
)

// gravest is, of what several NodeSyncs came to, what a person has to look at first: an error, what
// stalls, what is held, changes.
func gravest(ends ...error) error {
	rank := func(err error) int {
		var exit *exitError
		switch {
		case err == nil:
			return 0
		case errors.As(err, &exit) && exit.code != exitFailed:
			return exit.code
		}
		return math.MaxInt
	}
	return slices.MaxFunc(ends, func(a, b error) int { return cmp.Compare(rank(a), rank(b)) })
}

// exitError ends the program with a code of its own. The command has said
// already what there is to say, but for message.
type exitError struct {
	code    int
	message string
}

// Error returns the message.
func (e *exitError) Error() string { return e.message }
