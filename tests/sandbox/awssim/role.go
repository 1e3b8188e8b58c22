package awssim

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/service/iam"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/policy"
)

// role is an IAM role.
type role struct {
	resource
	name, path, arn, trust string
	trusts                 policy.Document // trust, parsed
	policies               []string        // ARNs of attached managed policies
	inline                 map[string]inlinePolicy
	description            string
	session                int64 // the longest one, in seconds; 0: an hour
	created                time.Time
}

// Trusted returns a trust policy that allows an AWS service to assume a role, and to tag the session.
func Trusted(service string) string {
	return `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"` + service + `"},"Action":["sts:AssumeRole","sts:TagSession"]}]}`
}

// Role specifies a new role.
type Role struct {
	Name string
	// Trust is who may assume it, Policies what it may do, by the name of each: policies of IAM in JSON.
	Trust    string
	Policies map[string]string
	Tags     map[string]string
}

// AddRole creates a role, with its policies attached to it.
func (s *Simulator) AddRole(r Role) error {
	var err error
	s.locked(func(a *account) { err = a.addRole(r) })
	return err
}

func (a *account) addRole(r Role) error {
	if _, ok := a.roles[r.Name]; ok {
		return fmt.Errorf("adding role %s: there is one of that name", r.Name)
	}
	made, err := a.newRole(r.Name, "/", r.Trust, r.Tags)
	if err != nil {
		return fmt.Errorf("adding role %s: %w", r.Name, err)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Policies)) {
		p, err := a.newPolicy(name, "/", r.Policies[name], r.Tags)
		if err != nil {
			return fmt.Errorf("adding policy %s to role %s: %w", name, r.Name, err)
		}
		made.policies = append(made.policies, p.arn)
	}
	return nil
}

// SetRoleGone deletes a role, even if in use, which invalidates the credentials of its sessions; or restores it.
func (s *Simulator) SetRoleGone(name string, gone bool) error {
	var err error
	s.locked(func(a *account) {
		from, to := a.roles, a.goneRoles
		if !gone {
			from, to = to, from
		}
		if from[name] == nil {
			err = fmt.Errorf("deleting role %s, or having it back: there is none of that name", name)
			return
		}
		to[name] = from[name]
		delete(from, name)
	})
	return err
}

// lackedSuffix marks an action that SetRoleLacks has removed: no action of AWS has such a name.
const lackedSuffix = "IsMissing"

// SetRoleLacks removes an action from the managed policies that a role has attached, or adds it again.
func (s *Simulator) SetRoleLacks(name, action string, lacks bool) error {
	var err error
	s.locked(func(a *account) { err = a.setRoleLacks(name, action, lacks) })
	return err
}

func (a *account) setRoleLacks(name, action string, lacks bool) error {
	from, to := strconv.Quote(action), strconv.Quote(action+lackedSuffix)
	if !lacks {
		from, to = to, from
	}
	found := false
	r, ok := a.roles[name]
	for i := 0; ok && i < len(r.policies); i++ {
		p := a.policies[r.policies[i]]
		if p == nil || !strings.Contains(p.text, from) {
			continue
		}
		text := strings.ReplaceAll(p.text, from, to)
		document, err := policy.Parse(text)
		if err != nil {
			return err
		}
		found, p.text, p.document = true, text, document
	}
	if !found {
		return fmt.Errorf("role %s has no attached policy with %s", name, from)
	}
	return nil
}

func (a *account) newRole(name, path, trust string, tags map[string]string, policies ...string) (*role, error) {
	path = cmp.Or(path, "/")
	r := &role{
		resource: a.newResource("AROA", tags, 0), name: name, path: path,
		arn: a.iamARN("role" + path + name), policies: policies, inline: map[string]inlinePolicy{}, created: a.now,
	}
	if err := r.setTrust(trust); err != nil {
		return nil, err
	}
	r.ID = strings.ToUpper(r.ID)
	a.roles[name] = r
	return r, nil
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
	if err := cmp.Or(tooLong("roleName", name, longestRole), tooLarge("ACLSizePerRole", aws.StringValue(in.AssumeRolePolicyDocument), largestTrust)); err != nil {
		return nil, err
	}
	if _, ok := a.roles[name]; ok {
		return nil, entityExists("Role with name %s already exists.", name)
	}
	r, err := a.newRole(name, aws.StringValue(in.Path), aws.StringValue(in.AssumeRolePolicyDocument), iamTagMap(in.Tags))
	if err != nil {
		return nil, err
	}
	r.description, r.session = aws.StringValue(in.Description), aws.Int64Value(in.MaxSessionDuration)
	return &iam.CreateRoleOutput{Role: r.describe()}, nil
}

func (a *account) updateRole(_ *request, in *iam.UpdateRoleInput) (*iam.UpdateRoleOutput, error) {
	r, err := a.findRole(in.RoleName)
	if err != nil {
		return nil, err
	}
	if in.Description != nil {
		r.description = *in.Description
	}
	if in.MaxSessionDuration != nil {
		r.session = *in.MaxSessionDuration
	}
	return &iam.UpdateRoleOutput{}, nil
}

func (a *account) tagRole(_ *request, in *iam.TagRoleInput) (*iam.TagRoleOutput, error) {
	r, err := a.findRole(in.RoleName)
	if err != nil {
		return nil, err
	}
	maps.Copy(r.Tags, iamTagMap(in.Tags))
	return &iam.TagRoleOutput{}, nil
}

func (a *account) untagRole(_ *request, in *iam.UntagRoleInput) (*iam.UntagRoleOutput, error) {
	r, err := a.findRole(in.RoleName)
	if err != nil {
		return nil, err
	}
	for _, key := range in.TagKeys {
		delete(r.Tags, aws.StringValue(key))
	}
	return &iam.UntagRoleOutput{}, nil
}

func (a *account) listRoleTags(_ *request, in *iam.ListRoleTagsInput) (*iam.ListRoleTagsOutput, error) {
	r, err := a.findRole(in.RoleName)
	if err != nil {
		return nil, err
	}
	return &iam.ListRoleTagsOutput{Tags: iamTags(r.Tags), IsTruncated: aws.Bool(false)}, nil
}

func (a *account) deleteRole(_ *request, in *iam.DeleteRoleInput) (*iam.DeleteRoleOutput, error) {
	r, err := a.findRole(in.RoleName)
	if err != nil {
		return nil, err
	}
	if len(r.inline) > 0 {
		return nil, deleteConflict("Cannot delete entity, must delete policies first.")
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
	arn := aws.StringValue(in.PolicyArn)
	if _, ok := a.policies[arn]; !ok && !strings.HasPrefix(arn, a.managedPolicy("")) {
		return nil, noSuchEntity("Policy %s does not exist or is not attachable.", arn)
	}
	switch {
	case slices.Contains(r.policies, arn):
	case len(r.policies) == mostPolicies:
		return nil, limitExceeded("Cannot exceed quota for PoliciesPerRole: %d", mostPolicies)
	default:
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
		CreateDate: aws.Time(r.created), Tags: iamTags(r.Tags), MaxSessionDuration: aws.Int64(cmp.Or(r.session, 3600)),
		Description: aws.String(r.description),
		// IAM returns the policy percent-encoded (RFC 3986).
		AssumeRolePolicyDocument: aws.String(url.PathEscape(r.trust)),
	}
}
