package cloud

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
)

// Simulation is one question to IAM's policy simulator.
type Simulation struct {
	// Action as in a policy, such as ec2:TerminateInstances, and Resource is an ARN, or * if the action has no resource type.
	Action, Resource string
	// Context are the values of condition keys; a key that it does not have is absent in the request.
	Context map[string][]string
}

// Simulated is the answer to a Simulation.
type Simulated struct {
	Allowed bool
	// ByOrganization reports whether a service control policy denies it. The policy simulator does not evaluate the conditions
	// of such policies as a real request does.
	ByOrganization bool
	// Missing are condition keys that policies name and that the Context does not have.
	Missing []string
}

// simulation is one request to the policy simulator: each of the actions on each of the resources, in the same context.
type simulation struct {
	context            map[string][]string
	actions, resources []string
}

// tagKeys is the condition key that has a list as its value.
const tagKeys = "aws:TagKeys"

// Simulate queries IAM's policy simulator about the policies and the permissions boundary of a role, and returns the answers
// in the order of the questions. Questions about the same actions with the same context are one request. Errors: as Grant; a
// *DeniedError if the credentials in use may not simulate.
func (c *Client) Simulate(ctx context.Context, roleARN string, questions []Simulation) ([]Simulated, error) {
	answers := map[string]Simulated{}
	for _, one := range simulations(questions) {
		if err := c.simulate(ctx, roleARN, one, answers); err != nil {
			return nil, err
		}
	}
	all := make([]Simulated, 0, len(questions))
	for _, q := range questions {
		answer, found := answers[q.identity()]
		if !found {
			return nil, fmt.Errorf("query AWS for %s: the answer has no result for %s on %s", simulatePrincipalPolicy, q.Action, q.Resource)
		}
		all = append(all, answer)
	}
	return all, nil
}

const simulatePrincipalPolicy = "iam:SimulatePrincipalPolicy"

// identity is the same text for equal questions.
func (s Simulation) identity() string {
	return strings.Join([]string{s.Action, s.Resource, fmt.Sprint(s.Context)}, " ")
}

// simulations groups questions: first the actions on one resource, then the resources with the same actions, both with the
// same context.
func simulations(questions []Simulation) []simulation {
	byResource := grouped(questions, func(q Simulation) (string, string) { return q.Resource + fmt.Sprint(q.Context), q.Action })
	actions := map[string][]string{}
	for _, group := range byResource {
		actions[group.of.Resource+fmt.Sprint(group.of.Context)] = group.values
	}
	var all []simulation
	for _, group := range grouped(questions, func(q Simulation) (string, string) {
		of := fmt.Sprint(q.Context)
		return strings.Join(actions[q.Resource+of], ",") + of, q.Resource
	}) {
		all = append(all, simulation{
			context: group.of.Context, resources: group.values, actions: actions[group.of.Resource+fmt.Sprint(group.of.Context)],
		})
	}
	return all
}

// group are the values that questions with the same key have, each once; of is the first of these questions.
type group struct {
	of     Simulation
	values []string
}

// grouped returns the groups in the order of their first questions.
func grouped(questions []Simulation, by func(Simulation) (key, value string)) []*group {
	var all []*group
	at := map[string]*group{}
	for _, q := range questions {
		key, value := by(q)
		one := at[key]
		if one == nil {
			one = &group{of: q}
			at[key], all = one, append(all, one)
		}
		if !slices.Contains(one.values, value) {
			one.values = append(one.values, value)
		}
	}
	for _, one := range all {
		slices.Sort(one.values)
	}
	return all
}

// simulate makes one request, with its pages, and adds the answers.
func (c *Client) simulate(ctx context.Context, roleARN string, s simulation, answers map[string]Simulated) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	in := &iam.SimulatePrincipalPolicyInput{
		PolicySourceArn: aws.String(roleARN), ActionNames: s.actions, ResourceArns: s.resources, MaxItems: aws.Int32(pageSize),
	}
	for _, key := range slices.Sorted(maps.Keys(s.context)) {
		entry := iamtypes.ContextEntry{
			ContextKeyName: aws.String(key), ContextKeyType: iamtypes.ContextKeyTypeEnumString, ContextKeyValues: s.context[key],
		}
		if strings.EqualFold(key, tagKeys) {
			entry.ContextKeyType = iamtypes.ContextKeyTypeEnumStringList
		}
		in.ContextEntries = append(in.ContextEntries, entry)
	}
	pages := iam.NewSimulatePrincipalPolicyPaginator(c.iam, in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return c.ofRole(ctx, simulatePrincipalPolicy, roleARN[strings.LastIndex(roleARN, "/")+1:], err)
		}
		for i := range page.EvaluationResults {
			addSimulated(&page.EvaluationResults[i], s.context, answers)
		}
	}
	return nil
}

// addSimulated adds the answer of a result, and those of the resources in it.
func addSimulated(r *iamtypes.EvaluationResult, context map[string][]string, answers map[string]Simulated) {
	add := func(resource *string, decision iamtypes.PolicyEvaluationDecisionType, missing []string) {
		q := Simulation{Action: aws.ToString(r.EvalActionName), Resource: aws.ToString(resource), Context: context}
		answer := Simulated{Allowed: decision == iamtypes.PolicyEvaluationDecisionTypeAllowed, Missing: missing}
		if by := r.OrganizationsDecisionDetail; by != nil {
			answer.ByOrganization = !by.AllowedByOrganizations
		}
		answers[q.identity()] = answer
	}
	add(r.EvalResourceName, r.EvalDecision, r.MissingContextValues)
	for _, of := range r.ResourceSpecificResults {
		add(of.EvalResourceName, of.EvalResourceDecision, of.MissingContextValues)
	}
}
