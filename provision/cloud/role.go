package cloud

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
)

// RoleAnnotation on a ServiceAccount has the ARN of its role, for IAM roles for service accounts (IRSA):
// https://docs.aws.amazon.com/eks/latest/userguide/associate-service-account-role.html
const RoleAnnotation = "eks.amazonaws.com/role-arn"

// ServiceAccount is one of a cluster, with its RoleAnnotation; RoleARN is empty if it has none.
type ServiceAccount struct {
	Namespace, Name string
	RoleARN         string
}

// Association gives a role to a ServiceAccount, by EKS Pod Identity.
type Association struct {
	ARN string
	// RoleARN is the role that EKS assumes.
	RoleARN string
	// TargetRoleARN is the role that EKS then assumes with it, and whose credentials pods get; empty if it is RoleARN.
	TargetRoleARN string
	// Policy further restricts the session; empty if there is none.
	Policy string
}

// Role is an IAM role with its policies.
type Role struct {
	ARN         string
	Description string
	// Trust is the JSON of its trust policy: who may assume it.
	Trust string
	Tags  map[string]string
	// Boundary is its permissions boundary; nil if it has none.
	Boundary *RolePolicy
	// Policies are those in the role, then those attached to it.
	Policies []RolePolicy
}

// RolePolicy is one policy of a role.
type RolePolicy struct {
	Name string
	// ARN of a managed policy; empty if the policy is in the role.
	ARN string
	// Text is its JSON.
	Text string
}

// Grant is the role that the pods of a ServiceAccount get.
type Grant struct {
	// Association is the one that counts; nil if the annotation does.
	Association *Association
	// RoleARN is the role whose policies decide what the pods may do; empty if neither an association nor an annotation
	// gives one.
	RoleARN string
	// Role is what was read of it.
	Role Role
}

// Grant returns the role that the pods of a ServiceAccount get, with its policies. An association counts before the
// annotation: the webhook that adds credentials to pods looks for it first (amazon-eks-pod-identity-webhook
// pkg/handler/handler.go, buildPodPatchConfig).
//
// If there is an error, the result is incomplete. Calls that are denied do not stop it: DeniedCalls returns all of them.
// A role that does not exist is a *NotFoundError.
func (c *Client) Grant(ctx context.Context, cluster string, account ServiceAccount) (Grant, error) {
	association, err := c.Association(ctx, cluster, account.Namespace, account.Name)
	if err != nil {
		return Grant{}, err
	}
	grant := Grant{Association: association, RoleARN: account.RoleARN}
	if association != nil {
		grant.RoleARN = association.RoleARN
		if association.TargetRoleARN != "" {
			grant.RoleARN = association.TargetRoleARN
		}
	}
	if grant.RoleARN != "" {
		grant.Role, err = c.Role(ctx, grant.RoleARN)
	}
	return grant, err
}

// Association returns that of a ServiceAccount; nil if there is none. It takes one request, and a second one if there is one.
func (c *Client) Association(ctx context.Context, cluster, namespace, serviceAccount string) (*Association, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	found, err := c.eks.ListPodIdentityAssociations(ctx, &eks.ListPodIdentityAssociationsInput{
		ClusterName: aws.String(cluster), Namespace: aws.String(namespace), ServiceAccount: aws.String(serviceAccount),
	})
	switch {
	case err != nil:
		return nil, c.named("eks:ListPodIdentityAssociations", err)
	case len(found.Associations) == 0:
		return nil, nil
	}
	// A ServiceAccount has at most one: CreatePodIdentityAssociation refuses a second one.
	out, err := c.eks.DescribePodIdentityAssociation(ctx, &eks.DescribePodIdentityAssociationInput{
		ClusterName: aws.String(cluster), AssociationId: found.Associations[0].AssociationId,
	})
	switch {
	case err != nil:
		return nil, c.named("eks:DescribePodIdentityAssociation", err)
	case out.Association == nil:
		return nil, fmt.Errorf("describe the Pod Identity association of %s/%s: the answer has none", namespace, serviceAccount)
	}
	return &Association{
		ARN: aws.ToString(out.Association.AssociationArn), RoleARN: aws.ToString(out.Association.RoleArn),
		TargetRoleARN: aws.ToString(out.Association.TargetRoleArn), Policy: aws.ToString(out.Association.Policy),
	}, nil
}

// Role returns a role of the account with its policies. It takes three requests, one for each policy in the role, and two
// for each attached policy and for a permissions boundary. Errors: as Grant.
func (c *Client) Role(ctx context.Context, arn string) (Role, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	name := arn[strings.LastIndex(arn, "/")+1:]
	role := Role{ARN: arn}
	var denials []error
	for _, read := range []func(context.Context, string, *Role) error{c.readTrust, c.readOwnPolicies, c.readAttachedPolicies} {
		err := read(ctx, name, &role)
		if err != nil && len(DeniedCalls(err)) == 0 {
			return role, err
		}
		if role.ARN != arn {
			return Role{ARN: arn}, fmt.Errorf("role %s was not read: the credentials in use belong to another account", arn)
		}
		denials = append(denials, err)
	}
	return role, errors.Join(denials...)
}

// ofRole gives an error of a call about a role its type.
func (c *Client) ofRole(ctx context.Context, action, name string, err error) error {
	var missing *iamtypes.NoSuchEntityException
	if !errors.As(err, &missing) {
		return c.named(action, err)
	}
	return &NotFoundError{
		What: "IAM role " + name, Where: c.regionAndAccount(ctx), Err: err,
		Check: "where it is named (ServiceAccount, association or EC2NodeClass); the credentials in use must belong to its account",
	}
}

func (c *Client) readTrust(ctx context.Context, name string, role *Role) error {
	out, err := c.iam.GetRole(ctx, &iam.GetRoleInput{RoleName: aws.String(name)})
	switch {
	case err != nil:
		return c.ofRole(ctx, "iam:GetRole", name, err)
	case out.Role == nil:
		return fmt.Errorf("read IAM role %s: the answer has none", name)
	}
	role.ARN, role.Description = aws.ToString(out.Role.Arn), aws.ToString(out.Role.Description)
	for _, tag := range out.Role.Tags {
		if role.Tags == nil {
			role.Tags = map[string]string{}
		}
		role.Tags[aws.ToString(tag.Key)] = aws.ToString(tag.Value)
	}
	if role.Trust, err = decoded(out.Role.AssumeRolePolicyDocument); err != nil || out.Role.PermissionsBoundary == nil {
		return err
	}
	arn := aws.ToString(out.Role.PermissionsBoundary.PermissionsBoundaryArn)
	role.Boundary = &RolePolicy{Name: arn[strings.LastIndex(arn, "/")+1:], ARN: arn}
	role.Boundary.Text, err = c.policyText(ctx, arn)
	return err
}

func (c *Client) readOwnPolicies(ctx context.Context, name string, role *Role) error {
	own, err := c.ownPolicies(ctx, name)
	for _, policy := range own {
		in := &iam.GetRolePolicyInput{RoleName: aws.String(name), PolicyName: aws.String(policy.Name)}
		out, err := c.iam.GetRolePolicy(ctx, in)
		if err != nil {
			return c.named("iam:GetRolePolicy", err)
		}
		if policy.Text, err = decoded(out.PolicyDocument); err != nil {
			return err
		}
		role.Policies = append(role.Policies, policy)
	}
	return err
}

// ownPolicies returns the policies in a role, without their texts.
func (c *Client) ownPolicies(ctx context.Context, name string) ([]RolePolicy, error) {
	var all []RolePolicy
	pages := iam.NewListRolePoliciesPaginator(c.iam, &iam.ListRolePoliciesInput{RoleName: aws.String(name)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, c.ofRole(ctx, "iam:ListRolePolicies", name, err)
		}
		for _, policy := range page.PolicyNames {
			all = append(all, RolePolicy{Name: policy})
		}
	}
	return all, nil
}

func (c *Client) readAttachedPolicies(ctx context.Context, name string, role *Role) error {
	attached, err := c.attachedPolicies(ctx, name)
	if err != nil {
		return err
	}
	for _, policy := range attached {
		if policy.Text, err = c.policyText(ctx, policy.ARN); err != nil {
			return err
		}
		role.Policies = append(role.Policies, policy)
	}
	return nil
}

// attachedPolicies returns the policies that are attached to a role, without their texts.
func (c *Client) attachedPolicies(ctx context.Context, name string) ([]RolePolicy, error) {
	var all []RolePolicy
	pages := iam.NewListAttachedRolePoliciesPaginator(c.iam, &iam.ListAttachedRolePoliciesInput{RoleName: aws.String(name)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, c.ofRole(ctx, "iam:ListAttachedRolePolicies", name, err)
		}
		for _, policy := range page.AttachedPolicies {
			all = append(all, RolePolicy{Name: aws.ToString(policy.PolicyName), ARN: aws.ToString(policy.PolicyArn)})
		}
	}
	return all, nil
}

// policyText returns the default version of a managed policy.
func (c *Client) policyText(ctx context.Context, arn string) (string, error) {
	described, err := c.iam.GetPolicy(ctx, &iam.GetPolicyInput{PolicyArn: aws.String(arn)})
	switch {
	case err != nil:
		return "", c.named("iam:GetPolicy", err)
	case described.Policy == nil:
		return "", fmt.Errorf("read IAM policy %s: the answer has none", arn)
	}
	version := &iam.GetPolicyVersionInput{PolicyArn: aws.String(arn), VersionId: described.Policy.DefaultVersionId}
	out, err := c.iam.GetPolicyVersion(ctx, version)
	switch {
	case err != nil:
		return "", c.named("iam:GetPolicyVersion", err)
	case out.PolicyVersion == nil:
		return "", fmt.Errorf("read IAM policy %s: the answer has no version", arn)
	}
	return decoded(out.PolicyVersion.Document)
}

// decoded returns a policy that IAM has percent-encoded (RFC 3986).
func decoded(text *string) (string, error) {
	plain, err := url.PathUnescape(aws.ToString(text))
	if err != nil {
		return "", fmt.Errorf("decode an IAM policy: %w", err)
	}
	return plain, nil
}

// DeniedCalls returns the calls in an error that AWS denied, in their order: Grant and Role join several.
func DeniedCalls(err error) []*DeniedError {
	var denied *DeniedError
	if joined, ok := err.(interface{ Unwrap() []error }); ok { // errors.As finds only the first one
		var all []*DeniedError
		for _, one := range joined.Unwrap() {
			all = append(all, DeniedCalls(one)...)
		}
		return all
	}
	if errors.As(err, &denied) {
		return []*DeniedError{denied}
	}
	return nil
}
