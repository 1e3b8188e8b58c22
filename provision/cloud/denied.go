package cloud

import (
	"fmt"
	"regexp"
	"strings"
)

// DeniedError says that AWS refuses an action to the credentials in use.
type DeniedError struct {
	// Action as IAM writes it: ec2:DescribeInstances.
	Action string
	// Resource is the ARN in AWS's answer; * where it names none.
	Resource string
	// Explicit says that a policy forbids it, so that allowing it does not help.
	Explicit bool
	// Detail is AWS's own sentence, without what changes with each request.
	Detail string
	Err    error
}

// Error names the action and the statement that is missing.
func (e *DeniedError) Error() string {
	if e.Explicit {
		return fmt.Sprintf("AWS denies %s: %s; a policy forbids it to the role in use: take %s on %s out of its Deny", e.Action, e.Detail, e.Action, e.Resource)
	}
	return fmt.Sprintf(`AWS denies %s: %s; add {"Effect":"Allow","Action":%q,"Resource":%q} to the policy of the role in use (plumbline's: manifests/iam-policy.json)`,
		e.Action, e.Detail, e.Action, e.Resource)
}

// Unwrap returns the SDK's error.
func (e *DeniedError) Unwrap() error { return e.Err }

// deniedResource finds the resource in AWS's sentence:
// https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_access-denied.html
var deniedResource = regexp.MustCompile(`on resource: (\S+)`)

func denied(action, message string, err error) *DeniedError {
	// EC2 appends a blob that is another one each time.
	detail, _, _ := strings.Cut(message, " Encoded authorization failure message")
	e := &DeniedError{
		Action: action, Resource: "*", Err: err,
		Detail: strings.TrimSuffix(detail, "."), Explicit: strings.Contains(detail, "explicit deny"),
	}
	if found := deniedResource.FindStringSubmatch(detail); found != nil {
		e.Resource = found[1]
	}
	return e
}
