package awssim

import (
	"net/http"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// access is one question to IAM: may this principal do that to this resource?
type access struct {
	Principal principal
	Action    string // as in a policy: ec2:TerminateInstances
	Resource  string // ARN, or * where the action has no resource
}

// authorize is the one place that every call passes before it does anything. So
// far all callers are administrators, and only a deny fault stops them; policies
// of roles belong here.
func (s *Simulator) authorize(req *request) error {
	asked := access{Principal: req.principal, Action: req.service.name + ":" + req.action, Resource: "*"}
	if !req.effects.deny {
		return nil
	}
	return req.service.deny(asked)
}

// deny is the service's answer to a call that may not be made, in the words of
// https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_access-denied.html.
func (s service) deny(asked access) error {
	status := http.StatusForbidden
	if s.protocol == wire.JSON {
		status = http.StatusBadRequest
	}
	return wire.Errorf(s.denied,
		"You are not authorized to perform this operation. User: %s is not authorized to perform: %s on resource: %s because no identity-based policy allows the %s action",
		asked.Principal.ARN, asked.Action, asked.Resource, asked.Action).WithStatus(status)
}
