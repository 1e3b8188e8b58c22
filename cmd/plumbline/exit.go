package main

// The exit codes of the CLI.
const (
	exitDone    = 0 // done, or no change
	exitFailed  = 1 // an error
	exitChanges = 2 // changes, or drift
	exitHeld    = 3 // held by the guard
	exitStalled = 4 // stalled, or timed out
)

// exitError ends the program with a code of its own. The command has said
// already what there is to say, but for message.
type exitError struct {
	code    int
	message string
}

// Error returns the message.
func (e *exitError) Error() string { return e.message }
