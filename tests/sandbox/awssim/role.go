package awssim

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/service/iam"
)

// role is an IAM role. Its policies are kept and listed; they decide nothing yet.
type role struct {
	resource
	name, path, arn, trust string
	policies               []string // ARNs of attached managed policies
	created                time.Time
}

// trusted is a policy that lets an AWS service assume a role.
func trusted(service string) string {
	return `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"` + service + `"},"Action":"sts:AssumeRole"}]}`
}

func (a *account) newRole(name, path, trust string, tags map[string]string, policies ...string) *role {
	path = cmp.Or(path, "/")
	r := &role{
		resource: a.newResource("AROA", tags, 0), name: name, path: path, trust: trust,
		arn: a.iamARN("role" + path + name), policies: policies, created: a.now,
	}
	r.ID = strings.ToUpper(r.ID)
	a.roles[name] = r
	return r
}

func (a *account) findRole(name *string) (*role, error) {
	if r, ok := a.roles[aws.StringValue(name)]; ok {
		return r, nil
	}
	return nil, noSuchEntity("The role with name %s cannot be found.", aws.StringValue(name))
}

func (a *account) getRole(_ *request, in *iam.GetRoleInput) (*iam.GetRoleOutput, error) {
	r, err := a.findRole(in.RoleName)
	if err != nil {
		return nil, err
	}
	return &iam.GetRoleOutput{Role: r.describe()}, nil
}

func (a *account) createRole(_ *request, in *iam.CreateRoleInput) (*iam.CreateRoleOutput, error) {
	name := aws.StringValue(in.RoleName)
	if _, ok := a.roles[name]; ok {
		return nil, entityExists("Role with name %s already exists.", name)
	}
	r := a.newRole(name, aws.StringValue(in.Path), aws.StringValue(in.AssumeRolePolicyDocument), iamTagMap(in.Tags))
	return &iam.CreateRoleOutput{Role: r.describe()}, nil
}

func (a *account) deleteRole(_ *request, in *iam.DeleteRoleInput) (*iam.DeleteRoleOutput, error) {
	r, err := a.findRole(in.RoleName)
	if err != nil {
		return nil, err
	}
	if len(r.policies) > 0 {
		return nil, deleteConflict("Cannot delete entity, must detach all policies first.")
	}
	for _, p := range a.profiles {
		if p.role == r {
			return nil, deleteConflict("Cannot delete entity, must remove roles from instance profile first.")
		}
	}
	delete(a.roles, r.name)
	return &iam.DeleteRoleOutput{}, nil
}

func (a *account) listRoles(_ *request, in *iam.ListRolesInput) (*iam.ListRolesOutput, error) {
	var selected []*role
	for _, r := range a.roles {
		if strings.HasPrefix(r.path, cmp.Or(aws.StringValue(in.PathPrefix), "/")) {
			selected = append(selected, r)
		}
	}
	selected, next, err := page(selected, func(r *role) string { return r.name }, in.MaxItems, in.Marker)
	if err != nil {
		return nil, err
	}
	out := &iam.ListRolesOutput{Roles: []*iam.Role{}, IsTruncated: aws.Bool(next != nil), Marker: next}
	for _, r := range selected {
		out.Roles = append(out.Roles, r.describe())
	}
	return out, nil
}

func (a *account) attachRolePolicy(_ *request, in *iam.AttachRolePolicyInput) (*iam.AttachRolePolicyOutput, error) {
	r, err := a.findRole(in.RoleName)
	if err != nil {
		return nil, err
	}
	if arn := aws.StringValue(in.PolicyArn); !slices.Contains(r.policies, arn) {
		r.policies = append(r.policies, arn)
	}
	return &iam.AttachRolePolicyOutput{}, nil
}

func (a *account) detachRolePolicy(_ *request, in *iam.DetachRolePolicyInput) (*iam.DetachRolePolicyOutput, error) {
	r, err := a.findRole(in.RoleName)
	if err != nil {
		return nil, err
	}
	at := slices.Index(r.policies, aws.StringValue(in.PolicyArn))
	if at < 0 {
		return nil, noSuchEntity("Policy %s was not found.", aws.StringValue(in.PolicyArn))
	}
	r.policies = slices.Delete(r.policies, at, at+1)
	return &iam.DetachRolePolicyOutput{}, nil
}

func (a *account) listAttachedRolePolicies(_ *request, in *iam.ListAttachedRolePoliciesInput) (*iam.ListAttachedRolePoliciesOutput, error) {
	r, err := a.findRole(in.RoleName)
	if err != nil {
		return nil, err
	}
	policies, next, err := page(slices.Clone(r.policies), func(arn string) string { return arn }, in.MaxItems, in.Marker)
	if err != nil {
		return nil, err
	}
	out := &iam.ListAttachedRolePoliciesOutput{AttachedPolicies: []*iam.AttachedPolicy{}, IsTruncated: aws.Bool(next != nil), Marker: next}
	for _, arn := range policies {
		name := arn[strings.LastIndex(arn, "/")+1:]
		out.AttachedPolicies = append(out.AttachedPolicies, &iam.AttachedPolicy{PolicyArn: aws.String(arn), PolicyName: aws.String(name)})
	}
	return out, nil
}

func (r *role) describe() *iam.Role {
	return &iam.Role{
		RoleId: aws.String(r.ID), RoleName: aws.String(r.name), Path: aws.String(r.path), Arn: aws.String(r.arn),
		CreateDate: aws.Time(r.created), Tags: iamTags(r.Tags),
		// IAM answers with the policy percent-encoded (RFC 3986).
		AssumeRolePolicyDocument: aws.String(url.PathEscape(r.trust)),
	}
}
