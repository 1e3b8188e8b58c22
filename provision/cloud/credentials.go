package cloud

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/smithy-go"
)

// CredentialsError says that there are no credentials, or none that AWS takes.
type CredentialsError struct {
	// Action that was refused; empty where the credentials were not even found.
	Action string
	// Code of AWS's answer, if there was one.
	Code string
	// Fetching says that Action is what credentials are fetched with.
	Fetching bool
	// Detail says why there are none, without what changes with each request.
	Detail string
	Err    error
}

func (e *CredentialsError) Error() string {
	detail := ""
	if e.Detail != "" {
		detail = ": " + e.Detail
	}
	switch {
	case e.Fetching:
		return fmt.Sprintf("AWS refuses credentials to plumbline's role, by %s (%s%s); check the role that plumbline's service account names, and its trust policy", e.Action, e.Code, detail)
	case e.Code == "":
		return fmt.Sprintf("no AWS credentials found%s; give plumbline's service account a role by EKS Pod Identity or IRSA", detail)
	}
	return fmt.Sprintf("AWS does not take the credentials for %s (%s); check the role of plumbline's service account", e.Action, e.Code)
}

// Unwrap returns the SDK's error.
func (e *CredentialsError) Unwrap() error { return e.Err }

// fetching is what credentials are asked for with, where the SDK does not name it:
// EKS Pod Identity's agent is no service of AWS.
const fetching = "the request for credentials"

// metadataService is how the SDK calls the metadata of EC2 instances
// (github.com/aws/aws-sdk-go-v2/feature/ec2/imds, ServiceID).
const metadataService = "ec2imds"

// withoutCredentials gives an error of the SDK's chain of credentials its type:
// who gives them refuses, does not answer, or there is nobody to ask.
func withoutCredentials(e *CredentialsError) error {
	if e.Code != "" || e.Err == nil {
		return e
	}
	action := fetching
	var operation *smithy.OperationError
	if errors.As(e.Err, &operation) {
		action = strings.ToLower(operation.ServiceID) + ":" + operation.OperationName
	}
	var api smithy.APIError
	switch {
	case operation != nil && operation.ServiceID == metadataService:
		// The last of the chain: nothing else was set up.
		return &CredentialsError{Err: e.Err, Detail: "the metadata of the EC2 instance has none either"}
	case errors.As(e.Err, &api):
		return refusedCredentials(action, api, e.Err)
	case errors.Is(e.Err, context.DeadlineExceeded):
		return &UnreachableError{Action: action, Detail: "no answer in time", Err: e.Err}
	case unconnected(e.Err):
		return &UnreachableError{Action: action, Detail: "no connection to " + cause(e.Err), Err: e.Err}
	}
	return &CredentialsError{Err: e.Err, Detail: innermost(e.Err).Error()}
}

func refusedCredentials(action string, api smithy.APIError, err error) error {
	switch typed := answered(action, api, err).(type) { //nolint:errorlint // it is made there
	case *ThrottledError, *UnreachableError:
		return typed
	}
	refused := &CredentialsError{Action: action, Code: api.ErrorCode(), Fetching: true, Err: err}
	if strings.HasPrefix(refused.Code, "AccessDenied") { // others name times
		refused.Detail = strings.TrimSuffix(api.ErrorMessage(), ".")
	}
	return refused
}
