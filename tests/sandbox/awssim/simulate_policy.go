package awssim

import (
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/service/iam"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/policy"
	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// simulatePrincipalPolicy answers with the evaluator that decides real calls (package policy), which shares no code with that
// of plumbline. It takes the policies of a role; resources' policies and further policies in the request are not supported.
func (a *account) simulatePrincipalPolicy(_ *request, in *iam.SimulatePrincipalPolicyInput) (*iam.SimulatePolicyResponse, error) {
	if in.ResourcePolicy != nil || len(in.PolicyInputList)+len(in.PermissionsBoundaryPolicyInputList) > 0 || in.CallerArn != nil {
		return nil, wire.Errorf("InvalidInput", "The simulator does not have policies in the request.")
	}
	var of *role
	for _, r := range a.roles {
		if r.arn == aws.StringValue(in.PolicySourceArn) {
			of = r
		}
	}
	if of == nil {
		return nil, noSuchEntity("Entity %s does not exist.", aws.StringValue(in.PolicySourceArn))
	}
	context := policy.Context{}
	for _, entry := range in.ContextEntries {
		context.Set(aws.StringValue(entry.ContextKeyName), aws.StringValueSlice(entry.ContextKeyValues)...)
	}
	resources := aws.StringValueSlice(in.ResourceArns)
	if len(resources) == 0 {
		resources = []string{"*"}
	}
	documents := a.documentsOf(of)
	missing := slices.DeleteFunc(policy.Keys(documents), context.Has)
	var results []*iam.EvaluationResult
	for _, action := range aws.StringValueSlice(in.ActionNames) {
		for _, resource := range resources {
			r := policy.Request{Action: action, Resource: resource, Context: context}
			results = append(results, a.simulated(r, documents, missing))
		}
	}
	return pageOfSimulation(results, in)
}

// pageOfSimulation returns a page of the results. The marker is the number of those before it.
func pageOfSimulation(results []*iam.EvaluationResult, in *iam.SimulatePrincipalPolicyInput) (*iam.SimulatePolicyResponse, error) {
	from, err := 0, error(nil)
	if in.Marker != nil {
		from, err = strconv.Atoi(*in.Marker)
	}
	if err != nil || from < 0 || from > len(results) {
		return nil, wire.Errorf("ValidationError", "Invalid Marker.")
	}
	out := &iam.SimulatePolicyResponse{EvaluationResults: results[from:], IsTruncated: aws.Bool(false)}
	if most := int(aws.Int64Value(in.MaxItems)); most > 0 && most < len(out.EvaluationResults) {
		out.EvaluationResults, out.IsTruncated = out.EvaluationResults[:most], aws.Bool(true)
		out.Marker = aws.String(strconv.Itoa(from + most))
	}
	return out, nil
}

// simulated returns the result for one request. Like AWS's, it does not evaluate the conditions of a service control policy:
// https://github.com/aws/aws-sdk/issues/102
func (a *account) simulated(r policy.Request, documents []policy.Document, missing []string) *iam.EvaluationResult {
	decisions := map[policy.Decision]string{
		policy.Allow: iam.PolicyEvaluationDecisionTypeAllowed, policy.ImplicitDeny: iam.PolicyEvaluationDecisionTypeImplicitDeny,
		policy.ExplicitDeny: iam.PolicyEvaluationDecisionTypeExplicitDeny,
	}
	result := &iam.EvaluationResult{
		EvalActionName: aws.String(r.Action), EvalResourceName: aws.String(r.Resource),
		EvalDecision: aws.String(decisions[policy.Identity(documents, r)]), MissingContextValues: aws.StringSlice(missing),
	}
	if a.serviceControl != nil {
		allows := policy.Identity([]policy.Document{a.serviceControl.Unconditional()}, r) != policy.ExplicitDeny
		result.OrganizationsDecisionDetail = &iam.OrganizationsDecisionDetail{AllowedByOrganizations: aws.Bool(allows)}
		if !allows {
			result.EvalDecision = aws.String(iam.PolicyEvaluationDecisionTypeExplicitDeny)
		}
	}
	return result
}

// SetServiceControlPolicy restricts what the roles of the account may do, by the statements of a policy that deny. If it is
// empty, nothing is restricted. Administrators without a role are not affected.
func (s *Simulator) SetServiceControlPolicy(text string) error {
	var document *policy.Document
	if text != "" {
		d, err := policy.Parse(text)
		if err != nil {
			return err
		}
		document = &d
	}
	s.locked(func(a *account) { a.serviceControl = document })
	return nil
}

// forbidden reports whether the account's service control policy denies a request.
func (a *account) forbidden(r policy.Request) bool {
	return a.serviceControl != nil && policy.Identity([]policy.Document{*a.serviceControl}, r) == policy.ExplicitDeny
}
