package preflight

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/iam"
)

// simulation queries IAM's policy simulator about what the checks of the controller's role evaluate. Without the permission, or
// if the answer is incomplete, the checks have only plumbline's evaluation, as before.
func (r *Reader) simulation(ctx context.Context, o *Observed) {
	c, found := o.controller()
	if !found || o.Grant.Err != nil || o.Grant.Of.RoleARN == "" {
		return
	}
	requests, err := iam.Requests(o.Version, o.iamCluster(c))
	if err != nil {
		return // the checks report it
	}
	questions := make([]cloud.Simulation, 0, len(requests))
	for _, one := range requests {
		resource, keys := one.Context()
		questions = append(questions, cloud.Simulation{Action: one.Action, Resource: resource, Context: keys})
	}
	answers, err := r.AWS.Simulate(ctx, o.Grant.Of.RoleARN, questions)
	if err != nil {
		o.Simulation.Err = err
		return
	}
	s := &iam.Simulation{Requests: requests}
	for i, answer := range answers {
		s.Answers = append(s.Answers, requests[i].Simulated(answer.Allowed, answer.ByOrganization, answer.Missing))
	}
	o.Simulation.Of = s
}

// compared returns whether a role was compared with IAM's policy simulator, for the text of what a check has looked at.
func (o Observed) compared() string {
	const with = "iam:SimulatePrincipalPolicy"
	var denied *cloud.DeniedError
	switch s := o.Simulation.Of; {
	case errors.As(o.Simulation.Err, &denied):
		return ", not compared with " + with + ": AWS denies it"
	case o.Simulation.Err != nil:
		return ", not compared with " + with + ": " + o.Simulation.Err.Error()
	case s == nil:
		return ""
	default:
		reasons, unknown := s.Unknown()
		if unknown == 0 {
			return ", compared with " + with
		}
		return fmt.Sprintf(", compared with %s (%d of its %d answers are unknown: %s)", with, unknown, len(s.Answers), strings.Join(reasons, "; "))
	}
}

// differs is the finding that IAM's policy simulator decides differently: one of both is wrong.
func (o Observed) differs(f iam.Finding) Finding {
	return Finding{
		Status: Unknown, Message: strings.Join(f.Actions, ", ") + ": " + f.Message,
		Fix: fmt.Sprintf("compare with what AWS answers: aws iam simulate-principal-policy --policy-source-arn %s --action-names %s",
			o.Grant.Of.RoleARN, strings.Join(f.Actions, " ")),
	}
}
