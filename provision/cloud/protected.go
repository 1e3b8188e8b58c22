package cloud

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// TerminationProtected says whether EC2 protects an instance from being terminated
// (disableApiTermination).
func (c *Client) TerminationProtected(ctx context.Context, providerID string) (bool, error) {
	_, id, err := ParseProviderID(providerID)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	said, err := c.ec2.DescribeInstanceAttribute(ctx, &ec2.DescribeInstanceAttributeInput{InstanceId: &id, Attribute: ec2types.InstanceAttributeNameDisableApiTermination})
	if err != nil {
		return false, c.named("ec2:DescribeInstanceAttribute", err)
	}
	return said.DisableApiTermination != nil && aws.ToBool(said.DisableApiTermination.Value), nil
}
