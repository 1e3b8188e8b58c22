package cloud

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// NodeRole returns a role of the account by its name, with its trust policy and the names of its policies, whose texts are
// not read. It takes three requests. Errors: as Grant.
func (c *Client) NodeRole(ctx context.Context, name string) (Role, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var role Role
	trust := c.readTrust(ctx, name, &role)
	if trust != nil && len(DeniedCalls(trust)) == 0 {
		return role, trust
	}
	own, err := c.ownPolicies(ctx, name)
	if err != nil && len(DeniedCalls(err)) == 0 {
		return role, err
	}
	attached, attachedErr := c.attachedPolicies(ctx, name)
	role.Policies = append(own, attached...)
	return role, errors.Join(trust, err, attachedErr)
}

// ProfileRoles returns the names of the roles in an instance profile: one, or none. A profile that does not exist is a
// *NotFoundError.
func (c *Client) ProfileRoles(ctx context.Context, name string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	profile, err := c.profile(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case profile == nil:
		return nil, &NotFoundError{
			What: "instance profile " + name, Where: c.regionAndAccount(ctx), Check: "spec.instanceProfile of the EC2NodeClass",
		}
	}
	var roles []string
	for _, role := range profile.Roles {
		roles = append(roles, aws.ToString(role.RoleName))
	}
	return roles, nil
}

// AccessEntry lets a role authenticate to the API server of an EKS cluster.
type AccessEntry struct {
	RoleARN string
	// Type is EC2_LINUX or EC2_WINDOWS for nodes, and STANDARD for others.
	Type string
}

// AccessEntry returns that of a role; nil if it has none.
func (c *Client) AccessEntry(ctx context.Context, cluster, roleARN string) (*AccessEntry, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	in := &eks.DescribeAccessEntryInput{ClusterName: aws.String(cluster), PrincipalArn: aws.String(roleARN)}
	out, err := c.eks.DescribeAccessEntry(ctx, in)
	var missing *ekstypes.ResourceNotFoundException
	switch {
	case errors.As(err, &missing):
		return nil, nil
	case err != nil:
		return nil, c.named("eks:DescribeAccessEntry", err)
	case out.AccessEntry == nil:
		return nil, nil
	}
	return &AccessEntry{RoleARN: aws.ToString(out.AccessEntry.PrincipalArn), Type: aws.ToString(out.AccessEntry.Type)}, nil
}
