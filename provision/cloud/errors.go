package cloud

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// ThrottledError says that AWS asks for fewer requests.
type ThrottledError struct {
	Action string
	Err    error
}

func (e *ThrottledError) Error() string {
	return fmt.Sprintf("AWS throttles %s; it is tried again", e.Action)
}

// Unwrap returns the SDK's error.
func (e *ThrottledError) Unwrap() error { return e.Err }

// UnreachableError says that AWS gave no answer, or one of its own trouble.
type UnreachableError struct {
	Action string
	// Detail says what stood in the way.
	Detail string
	Err    error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("AWS gives no answer to %s: %s; it is tried again", e.Action, e.Detail)
}

// Unwrap returns the SDK's error.
func (e *UnreachableError) Unwrap() error { return e.Err }

// PartialError says that an answer has more pages than there was time for. The
// same question, asked again, goes on with the next page.
type PartialError struct {
	Action string
	Err    error
}

func (e *PartialError) Error() string {
	return fmt.Sprintf("AWS's answer to %s has more pages than one pass reads; the next pass continues with it", e.Action)
}

// Unwrap returns why the page that was asked for last did not come.
func (e *PartialError) Unwrap() error { return e.Err }

// NotFoundError says that AWS has no such thing.
type NotFoundError struct {
	// What was asked for: "EKS cluster demo".
	What string
	// Where it is not: "eu-west-1 of account 111122223333".
	Where string
	Err   error
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("%s does not exist in %s; check cluster.name and cluster.region in plumbline.yaml, and that plumbline's role is in the cluster's account", e.What, e.Where)
}

// Unwrap returns the SDK's error.
func (e *NotFoundError) Unwrap() error { return e.Err }

// named gives an error of the SDK its type.
func named(action string, err error) error {
	var credentials *CredentialsError
	if errors.As(err, &credentials) {
		return withoutCredentials(credentials)
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		return answered(action, api, err)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return &UnreachableError{Action: action, Detail: "no answer in time", Err: err}
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("ask AWS for %s: %w", action, context.Canceled)
	case unconnected(err):
		return &UnreachableError{Action: action, Detail: "no connection to " + cause(err), Err: err}
	}
	return fmt.Errorf("ask AWS for %s: %w", action, err)
}

// Throttles says whether AWS asks for fewer requests by an error code, such as RequestLimitExceeded: the SDK's table
// (github.com/aws/aws-sdk-go-v2/aws/retry, DefaultThrottleErrorCodes).
func Throttles(code string) bool {
	_, throttled := retry.DefaultThrottleErrorCodes[code]
	return throttled
}

func answered(action string, api smithy.APIError, err error) error {
	code := api.ErrorCode()
	if Throttles(code) {
		return &ThrottledError{Action: action, Err: err}
	}
	switch code {
	case "UnauthorizedOperation", "AccessDenied", "AccessDeniedException":
		return denied(action, api.ErrorMessage(), err)
	case "AuthFailure", "ExpiredToken", "ExpiredTokenException", "InvalidClientTokenId", "InvalidSignatureException",
		"SignatureDoesNotMatch", "UnrecognizedClientException", "RequestExpired", "IncompleteSignature":
		return &CredentialsError{Action: action, Code: code, Err: err}
	}
	var response *smithyhttp.ResponseError
	if api.ErrorFault() == smithy.FaultServer || (errors.As(err, &response) && response.HTTPStatusCode() >= 500) {
		return &UnreachableError{Action: action, Detail: code, Err: err}
	}
	return &AnswerError{Action: action, Code: code, Detail: api.ErrorMessage(), Err: err}
}

// AnswerError is an error answer that has no type of its own.
type AnswerError struct {
	Action, Code, Detail string
	Err                  error
}

func (e *AnswerError) Error() string {
	return fmt.Sprintf("AWS refuses %s: %s: %s", e.Action, e.Code, e.Detail)
}

// Unwrap returns the SDK's error.
func (e *AnswerError) Unwrap() error { return e.Err }
