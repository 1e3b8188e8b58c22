package awssim

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/service/iam"
)

// versionID returns the ID of a version of a policy: v1, v2, ….
func versionID(number int) string { return "v" + strconv.Itoa(number) }

// findVersion returns a version of a policy by its ID.
func (p *managedPolicy) findVersion(id *string) (int, policyVersion, error) {
	number, err := strconv.Atoi(strings.TrimPrefix(aws.StringValue(id), "v"))
	if err == nil && number == p.version {
		return number, policyVersion{p.text, p.document}, nil
	}
	if v, ok := p.others[number]; ok && err == nil {
		return number, v, nil
	}
	return 0, policyVersion{}, noSuchEntity("Policy %s version %s does not exist or is not attachable.", p.arn, aws.StringValue(id))
}

func (a *account) getPolicyVersion(_ *request, in *iam.GetPolicyVersionInput) (*iam.GetPolicyVersionOutput, error) {
	p, err := a.findPolicy(in.PolicyArn)
	if err != nil {
		return nil, err
	}
	number, v, err := p.findVersion(in.VersionId)
	if err != nil {
		return nil, err
	}
	described := p.describeVersion(number)
	described.Document = aws.String(url.PathEscape(v.text))
	return &iam.GetPolicyVersionOutput{PolicyVersion: described}, nil
}

func (a *account) createPolicyVersion(_ *request, in *iam.CreatePolicyVersionInput) (*iam.CreatePolicyVersionOutput, error) {
	p, err := a.findPolicy(in.PolicyArn)
	if err != nil {
		return nil, err
	}
	text := aws.StringValue(in.PolicyDocument)
	if err := tooLarge("PolicySize", text, largestPolicy); err != nil {
		return nil, err
	}
	if len(p.others)+1 == mostVersions {
		return nil, limitExceeded("A managed policy can have up to %d versions. Before you create a new version, you must delete an existing version.", mostVersions)
	}
	document, err := parsePolicy(text)
	if err != nil {
		return nil, err
	}
	p.last++
	if aws.BoolValue(in.SetAsDefault) {
		p.others[p.version] = policyVersion{p.text, p.document}
		p.version, p.text, p.document = p.last, text, document
	} else {
		p.others[p.last] = policyVersion{text, document}
	}
	return &iam.CreatePolicyVersionOutput{PolicyVersion: p.describeVersion(p.last)}, nil
}

func (a *account) deletePolicyVersion(_ *request, in *iam.DeletePolicyVersionInput) (*iam.DeletePolicyVersionOutput, error) {
	p, err := a.findPolicy(in.PolicyArn)
	if err != nil {
		return nil, err
	}
	number, _, err := p.findVersion(in.VersionId)
	if err != nil {
		return nil, err
	}
	if number == p.version {
		return nil, deleteConflict("Cannot delete the default version of a policy.")
	}
	delete(p.others, number)
	return &iam.DeletePolicyVersionOutput{}, nil
}

func (a *account) listPolicyVersions(_ *request, in *iam.ListPolicyVersionsInput) (*iam.ListPolicyVersionsOutput, error) {
	p, err := a.findPolicy(in.PolicyArn)
	if err != nil {
		return nil, err
	}
	numbers := []int{p.version}
	for number := range p.others {
		numbers = append(numbers, number)
	}
	slices.Sort(numbers)
	out := &iam.ListPolicyVersionsOutput{Versions: []*iam.PolicyVersion{}, IsTruncated: aws.Bool(false)}
	for _, number := range slices.Backward(numbers) {
		out.Versions = append(out.Versions, p.describeVersion(number))
	}
	return out, nil
}

func (p *managedPolicy) describeVersion(number int) *iam.PolicyVersion {
	return &iam.PolicyVersion{
		VersionId: aws.String(versionID(number)), IsDefaultVersion: aws.Bool(number == p.version),
		CreateDate: aws.Time(p.created),
	}
}

func (a *account) listEntitiesForPolicy(_ *request, in *iam.ListEntitiesForPolicyInput) (*iam.ListEntitiesForPolicyOutput, error) {
	p, err := a.findPolicy(in.PolicyArn)
	if err != nil {
		return nil, err
	}
	var attached []*role
	for _, r := range a.roles {
		if slices.Contains(r.policies, p.arn) {
			attached = append(attached, r)
		}
	}
	attached, next, err := page(attached, func(r *role) string { return r.name }, in.MaxItems, in.Marker)
	if err != nil {
		return nil, err
	}
	out := &iam.ListEntitiesForPolicyOutput{
		PolicyGroups: []*iam.PolicyGroup{}, PolicyUsers: []*iam.PolicyUser{}, PolicyRoles: []*iam.PolicyRole{},
		IsTruncated: aws.Bool(next != nil), Marker: next,
	}
	for _, r := range attached {
		out.PolicyRoles = append(out.PolicyRoles, &iam.PolicyRole{RoleName: aws.String(r.name), RoleId: aws.String(r.ID)})
	}
	return out, nil
}

func (a *account) listPolicies(_ *request, in *iam.ListPoliciesInput) (*iam.ListPoliciesOutput, error) {
	var selected []*managedPolicy
	for _, p := range a.policies {
		own := strings.HasPrefix(p.arn, a.iamARN(""))
		if aws.StringValue(in.Scope) == iam.PolicyScopeTypeLocal && !own || aws.StringValue(in.Scope) == iam.PolicyScopeTypeAws && own {
			continue
		}
		if strings.HasPrefix(p.path, aws.StringValue(in.PathPrefix)) {
			selected = append(selected, p)
		}
	}
	selected, next, err := page(selected, func(p *managedPolicy) string { return p.arn }, in.MaxItems, in.Marker)
	if err != nil {
		return nil, err
	}
	out := &iam.ListPoliciesOutput{Policies: []*iam.Policy{}, IsTruncated: aws.Bool(next != nil), Marker: next}
	for _, p := range selected {
		described := a.describePolicy(p)
		described.Tags = nil // IAM does not list them
		out.Policies = append(out.Policies, described)
	}
	return out, nil
}
