package fault

import (
	"strings"

	"github.com/plumbline-dev/plumbline/provision/allowance"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

// OnlyGit says that the error is made of nothing but what is in Git, of names, and of what lives
// of the definitions: no value of a Secret has a part in it.
func (e *Error) OnlyGit() bool { return onlyGit(e.Err) }

// onlyGit knows types, and errors that are joined. One that wraps another may have other words.
func onlyGit(err error) bool {
	switch err := err.(type) { //nolint:errorlint // one that wraps it may have other words, too
	case render.Error, render.Errors, *render.MissingError, *render.EmptyError, *source.SymlinkError,
		*plan.MissingClassError, *plan.RefusedError, *plan.ConflictError, *apply.InvalidError:
		return true
	case *allowance.RefusedError:
		return err.OnlyGit()
	case interface{ Unwrap() []error }:
		return onlyJoined(err.(error).Error(), err.Unwrap())
	}
	return false
}

// onlyJoined says that a message has the words of errors, a line each, and no other.
func onlyJoined(message string, parts []error) bool {
	var lines []string
	for _, part := range parts {
		if !onlyGit(part) {
			return false
		}
		lines = append(lines, part.Error())
	}
	return message == strings.Join(lines, "\n")
}
