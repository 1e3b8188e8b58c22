package wire

import (
	"errors"
	"fmt"
	"net/http"
)

// Error is an error of a service: the code that callers check, a message for people, and the HTTP status.
type Error struct {
	Code    string
	Message string
	Status  int
}

// Errorf returns an Error with status 400, which most services use for all errors of the caller.
func Errorf(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Status: http.StatusBadRequest}
}

// Error implements error.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// WithStatus returns a copy of e with another HTTP status.
func (e *Error) WithStatus(status int) *Error {
	c := *e
	c.Status = status
	return &c
}

// AsError finds the Error in err. Any other error is the simulator's own failure and is reported as InternalFailure.
func AsError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Code: "InternalFailure", Message: err.Error(), Status: http.StatusInternalServerError}
}
