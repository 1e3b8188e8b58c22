package awssim

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/service/iam"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/policy"
	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// managedPolicy is a policy of the account that roles have attached.
type managedPolicy struct {
	resource
	name, path, arn string
	description     string
	text            string // of the default version
	document        policy.Document
	version         int // number of the default version
	last            int // number of the newest version
	others          map[int]policyVersion
	created         time.Time
}

// policyVersion is a version that is not the default.
type policyVersion struct {
	text     string
	document policy.Document
}

// inlinePolicy is a policy in a role.
type inlinePolicy struct {
	text     string
	document policy.Document
}

// administrator is the only one of AWS's own policies whose text the simulator contains. The others, those of node
// roles, allow nothing here.
const administrator = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}`

// publishPolicies creates AWS's own policies with a text here.
func (a *account) publishPolicies() {
	document, err := policy.Parse(administrator)
	if err != nil {
		panic(err) // a constant
	}
	const name = "AdministratorAccess"
	p := &managedPolicy{resource: resource{ID: fixedID("ANPA", name)}, name: name, path: "/", arn: a.managedPolicy(name), text: administrator, document: document, version: 1, last: 1, others: map[int]policyVersion{}, created: a.now}
	a.policies[p.arn] = p
}

func (a *account) policyActions() map[string]action {
	return map[string]action{
		"CreatePolicy":           query(a, a.createPolicy),
		"GetPolicy":              query(a, a.getPolicy),
		"GetPolicyVersion":       query(a, a.getPolicyVersion),
		"DeletePolicy":           query(a, a.deletePolicy),
		"ListPolicies":           query(a, a.listPolicies),
		"CreatePolicyVersion":    query(a, a.createPolicyVersion),
		"DeletePolicyVersion":    query(a, a.deletePolicyVersion),
		"ListPolicyVersions":     query(a, a.listPolicyVersions),
		"ListEntitiesForPolicy":  query(a, a.listEntitiesForPolicy),
		"PutRolePolicy":          query(a, a.putRolePolicy),
		"GetRolePolicy":          query(a, a.getRolePolicy),
		"DeleteRolePolicy":       query(a, a.deleteRolePolicy),
		"ListRolePolicies":       query(a, a.listRolePolicies),
		"UpdateAssumeRolePolicy": query(a, a.updateAssumeRolePolicy),
	}
}

// parsePolicy validates a document like IAM.
func parsePolicy(text string) (policy.Document, error) {
	d, err := policy.Parse(text)
	if err != nil {
		return d, wire.Errorf("MalformedPolicyDocument", "%v", err)
	}
	return d, nil
}

// documentsOf returns all policies of a role.
func (a *account) documentsOf(r *role) []policy.Document {
	var all []policy.Document
	for _, name := range slices.Sorted(maps.Keys(r.inline)) {
		all = append(all, r.inline[name].document)
	}
	for _, arn := range r.policies {
		if p, ok := a.policies[arn]; ok {
			all = append(all, p.document)
		}
	}
	return all
}

func (a *account) newPolicy(name, path, text string, tags map[string]string) (*managedPolicy, error) {
	document, err := parsePolicy(text)
	if err != nil {
		return nil, err
	}
	path = cmp.Or(path, "/")
	p := &managedPolicy{
		resource: a.newResource("ANPA", tags, 0), name: name, path: path, text: text, document: document,
		arn: a.iamARN("policy" + path + name), created: a.now, version: 1, last: 1, others: map[int]policyVersion{},
	}
	p.ID = strings.ToUpper(p.ID)
	if _, ok := a.policies[p.arn]; ok {
		return nil, entityExists("A policy called %s already exists. Duplicate names are not allowed.", name)
	}
	a.policies[p.arn] = p
	return p, nil
}

func (a *account) findPolicy(arn *string) (*managedPolicy, error) {
	if p, ok := a.policies[aws.StringValue(arn)]; ok {
		return p, nil
	}
	return nil, noSuchEntity("Policy %s was not found.", aws.StringValue(arn))
}

func (a *account) createPolicy(_ *request, in *iam.CreatePolicyInput) (*iam.CreatePolicyOutput, error) {
	if err := cmp.Or(tooLong("policyName", aws.StringValue(in.PolicyName), longestPolicy), tooLarge("PolicySize", aws.StringValue(in.PolicyDocument), largestPolicy)); err != nil {
		return nil, err
	}
	p, err := a.newPolicy(aws.StringValue(in.PolicyName), aws.StringValue(in.Path), aws.StringValue(in.PolicyDocument), iamTagMap(in.Tags))
	if err != nil {
		return nil, err
	}
	p.description = aws.StringValue(in.Description)
	return &iam.CreatePolicyOutput{Policy: a.describePolicy(p)}, nil
}

func (a *account) getPolicy(_ *request, in *iam.GetPolicyInput) (*iam.GetPolicyOutput, error) {
	p, err := a.findPolicy(in.PolicyArn)
	if err != nil {
		return nil, err
	}
	return &iam.GetPolicyOutput{Policy: a.describePolicy(p)}, nil
}

func (a *account) deletePolicy(_ *request, in *iam.DeletePolicyInput) (*iam.DeletePolicyOutput, error) {
	p, err := a.findPolicy(in.PolicyArn)
	if err != nil {
		return nil, err
	}
	if a.attachments(p.arn) > 0 {
		return nil, deleteConflict("Cannot delete a policy attached to entities.")
	}
	if len(p.others) > 0 {
		return nil, deleteConflict("This policy has more than one version. Before you delete a policy, you must delete the policy's versions. The default version is deleted with the policy.")
	}
	delete(a.policies, p.arn)
	return &iam.DeletePolicyOutput{}, nil
}

func (a *account) attachments(arn string) int64 {
	var n int64
	for _, r := range a.roles {
		if slices.Contains(r.policies, arn) {
			n++
		}
	}
	return n
}

func (a *account) describePolicy(p *managedPolicy) *iam.Policy {
	return &iam.Policy{
		PolicyId: aws.String(p.ID), PolicyName: aws.String(p.name), Path: aws.String(p.path), Arn: aws.String(p.arn),
		DefaultVersionId: aws.String(versionID(p.version)), AttachmentCount: aws.Int64(a.attachments(p.arn)), IsAttachable: aws.Bool(true),
		CreateDate: aws.Time(p.created), UpdateDate: aws.Time(p.created), Tags: iamTags(p.Tags), Description: aws.String(p.description),
	}
}

// PutRolePolicy adds a policy to a role, as an administrator would.
func (s *Simulator) PutRolePolicy(roleName, name, text string) error {
	var err error
	s.locked(func(a *account) {
		var r *role
		if r, err = a.findRole(&roleName); err == nil {
			err = r.putInline(name, text)
		}
	})
	return err
}

// ReplaceRolePolicies gives a role only one policy, and returns a function that restores those that it had.
func (s *Simulator) ReplaceRolePolicies(roleName, text string) (restore func(), err error) {
	s.locked(func(a *account) {
		var r *role
		if r, err = a.findRole(&roleName); err != nil {
			return
		}
		attached, inline := r.policies, r.inline
		r.policies, r.inline = nil, map[string]inlinePolicy{}
		back := func() { r.policies, r.inline = attached, inline }
		if err = r.putInline("replaced", text); err != nil {
			back()
			return
		}
		restore = func() { s.locked(func(*account) { back() }) }
	})
	return restore, err
}

func (r *role) putInline(name, text string) error {
	document, err := parsePolicy(text)
	if err != nil {
		return err
	}
	r.inline[name] = inlinePolicy{text, document}
	return nil
}

func (a *account) putRolePolicy(_ *request, in *iam.PutRolePolicyInput) (*iam.PutRolePolicyOutput, error) {
	r, err := a.findRole(in.RoleName)
	if err != nil {
		return nil, err
	}
	name, text := aws.StringValue(in.PolicyName), aws.StringValue(in.PolicyDocument)
	total := size(text)
	for other, p := range r.inline {
		if other != name {
			total += size(p.text)
		}
	}
	if total > largestInline {
		return nil, limitExceeded("Maximum policy size of %d bytes exceeded for role %s", largestInline, r.name)
	}
	return &iam.PutRolePolicyOutput{}, r.putInline(name, text)
}

func (a *account) findInline(roleName, name *string) (*role, inlinePolicy, error) {
	r, err := a.findRole(roleName)
	if err != nil {
		return nil, inlinePolicy{}, err
	}
	p, ok := r.inline[aws.StringValue(name)]
	if !ok {
		return nil, p, noSuchEntity("The role policy with name %s cannot be found.", aws.StringValue(name))
	}
	return r, p, nil
}

func (a *account) getRolePolicy(_ *request, in *iam.GetRolePolicyInput) (*iam.GetRolePolicyOutput, error) {
	_, p, err := a.findInline(in.RoleName, in.PolicyName)
	if err != nil {
		return nil, err
	}
	return &iam.GetRolePolicyOutput{RoleName: in.RoleName, PolicyName: in.PolicyName, PolicyDocument: aws.String(url.PathEscape(p.text))}, nil
}

func (a *account) deleteRolePolicy(_ *request, in *iam.DeleteRolePolicyInput) (*iam.DeleteRolePolicyOutput, error) {
	r, _, err := a.findInline(in.RoleName, in.PolicyName)
	if err != nil {
		return nil, err
	}
	delete(r.inline, aws.StringValue(in.PolicyName))
	return &iam.DeleteRolePolicyOutput{}, nil
}

func (a *account) listRolePolicies(_ *request, in *iam.ListRolePoliciesInput) (*iam.ListRolePoliciesOutput, error) {
	r, err := a.findRole(in.RoleName)
	if err != nil {
		return nil, err
	}
	names, next, err := page(slices.Collect(maps.Keys(r.inline)), func(name string) string { return name }, in.MaxItems, in.Marker)
	if err != nil {
		return nil, err
	}
	return &iam.ListRolePoliciesOutput{PolicyNames: aws.StringSlice(names), IsTruncated: aws.Bool(next != nil), Marker: next}, nil
}

func (a *account) updateAssumeRolePolicy(_ *request, in *iam.UpdateAssumeRolePolicyInput) (*iam.UpdateAssumeRolePolicyOutput, error) {
	r, err := a.findRole(in.RoleName)
	if err != nil {
		return nil, err
	}
	return &iam.UpdateAssumeRolePolicyOutput{}, r.setTrust(aws.StringValue(in.PolicyDocument))
}

func (r *role) setTrust(text string) error {
	document, err := parsePolicy(text)
	if err != nil {
		return err
	}
	r.trust, r.trusts = text, document
	return nil
}

// notAssumable is STS's error for callers that a role's trust policy does not name.
func notAssumable(who, action, arn string) error {
	return wire.Errorf("AccessDenied", "User: %s is not authorized to perform: %s on resource: %s", who, action, arn).WithStatus(http.StatusForbidden)
}
