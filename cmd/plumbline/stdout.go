package main

import (
	"errors"
	"os"
)

// standardOutput remembers that something could not be written, as on a full disk. What prints
// line by line does not look, and who reads a file that ends early would take it for the whole.
type standardOutput struct {
	file *os.File
	err  error
}

// Fd is what a terminal is asked its width by.
func (o *standardOutput) Fd() uintptr { return o.file.Fd() }

// Write writes, and keeps the first error.
func (o *standardOutput) Write(text []byte) (int, error) {
	n, err := o.file.Write(text)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// outcome is what a command has come to: what could not be printed is an error, whatever the
// exit code of what was to be printed.
func (o *standardOutput) outcome(err error) error {
	var exit *exitError
	if o.err != nil && (err == nil || errors.As(err, &exit)) {
		return o.err
	}
	return err
}
