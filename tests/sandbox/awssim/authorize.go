package awssim

import (
	"fmt"
	"net/http"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/policy"
	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// access is one IAM check: may this principal do this to this resource?
type access struct {
	Action   string // as in a policy: ec2:TerminateInstances
	Resource string // ARN, or * if the action has no resource
	Context  policy.Context
	// missing is true if the named resource does not exist. A principal who may do the action to any resource gets the
	// action's own error.
	missing bool
}

// always lists the actions that need no policy, and that none can deny, or whose caller has no identity yet.
var always = map[string]bool{
	"sts:GetCallerIdentity":             true,
	"sts:AssumeRoleWithWebIdentity":     true,
	"eks-auth:AssumeRoleForPodIdentity": true,
}

// authorize checks every call before it does anything. A role's session may do what the role's policies allow; an
// unregistered access key is an administrator's.
func (s *Simulator) authorize(req *request) error {
	name := req.service.name + ":" + req.action
	if req.effects.deny {
		return req.service.deny(req.principal, access{Action: name, Resource: "*"}, policy.ImplicitDeny)
	}
	if always[name] {
		return nil
	}
	var err error
	s.locked(func(a *account) { err = a.authorize(req) })
	return err
}

func (a *account) authorize(req *request) error {
	c, ok := a.credentials[req.principal.AccessKey]
	if !ok {
		return nil
	}
	r, ok := a.roles[c.role]
	if !ok {
		return wire.Errorf("InvalidClientTokenId", "The security token included in the request is invalid.").WithStatus(http.StatusForbidden)
	}
	documents := a.documentsOf(r)
	for _, asked := range a.accesses(req) {
		if asked.missing && policy.Names(documents, asked.Action) {
			continue
		}
		r := policy.Request{Action: asked.Action, Resource: asked.Resource, Context: asked.Context}
		if a.forbidden(r) {
			return req.service.denyBy(req.principal, asked, " with an explicit deny in a service control policy")
		}
		if decision := policy.Identity(documents, r); decision != policy.Allow {
			return req.service.deny(req.principal, asked, decision)
		}
	}
	return nil
}

// deny returns the service's error for a denied call, in the words of
// https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_access-denied.html. For decisions by resource, EC2 adds
// an encoded message, a different one each time.
func (s service) deny(who principal, asked access, decision policy.Decision) error {
	if decision == policy.ExplicitDeny {
		return s.denyBy(who, asked, " with an explicit deny in an identity-based policy")
	}
	return s.denyBy(who, asked, fmt.Sprintf(" because no identity-based policy allows the %s action", asked.Action))
}

// denyBy is deny, with the reason in AWS's words.
func (s service) denyBy(who principal, asked access, reason string) error {
	status := http.StatusForbidden
	if s.protocol == wire.JSON {
		status = http.StatusBadRequest
	}
	text := fmt.Sprintf("User: %s is not authorized to perform: %s", who.ARN, asked.Action)
	if s.protocol != wire.EC2 || asked.Resource != "*" {
		text += " on resource: " + asked.Resource
	}
	text += reason
	if s.protocol == wire.EC2 {
		text = "You are not authorized to perform this operation. " + text
		if asked.Resource != "*" {
			text += ". Encoded authorization failure message: " + newRequestID()
		}
	}
	return wire.Errorf(s.denied, "%s", text).WithStatus(status)
}
