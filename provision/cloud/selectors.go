package cloud

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud/offers"
	"github.com/plumbline-dev/plumbline/provision/cloud/resolve"
)

// AMIs returns those that Karpenter finds for an EC2NodeClass in a cluster of a Kubernetes version (1.36), in the order
// of its preference. Like the methods below, it reuses AWS's responses of the last minutes, and returns a typed
// error rather than wait.
func (c *Client) AMIs(ctx context.Context, class *awsv1.EC2NodeClass, kubernetes string) ([]awsv1.AMI, error) {
	return c.resolver.AMIs(ctx, class, kubernetes)
}

// Images returns the AMIs that Karpenter finds for an EC2NodeClass, like AMIs, with their ages.
func (c *Client) Images(ctx context.Context, class *awsv1.EC2NodeClass, kubernetes string) ([]resolve.Image, error) {
	return c.resolver.Images(ctx, class, kubernetes)
}

// Published returns the AMIs of AWS whose names match one of some patterns.
func (c *Client) Published(ctx context.Context, patterns []string) ([]resolve.Image, error) {
	return c.resolver.Published(ctx, patterns)
}

// Subnets returns the IDs of those that Karpenter finds for an EC2NodeClass.
func (c *Client) Subnets(ctx context.Context, class *awsv1.EC2NodeClass) ([]string, error) {
	return c.resolver.Subnets(ctx, class)
}

// SecurityGroups returns the IDs of those that Karpenter finds for an EC2NodeClass.
func (c *Client) SecurityGroups(ctx context.Context, class *awsv1.EC2NodeClass) ([]string, error) {
	return c.resolver.SecurityGroups(ctx, class)
}

// Reservations returns the IDs of the capacity reservations that Karpenter finds for an EC2NodeClass.
func (c *Client) Reservations(ctx context.Context, class *awsv1.EC2NodeClass) ([]string, error) {
	return c.resolver.Reservations(ctx, class)
}

// selectors implements resolve.API with a Client.
type selectors struct{ *Client }

func newResolver(c *Client) *resolve.Resolver {
	return resolve.New(selectors{c}, func() time.Time { return c.now() })
}

func (s selectors) DescribeImages(ctx context.Context, in *ec2.DescribeImagesInput) (*ec2.DescribeImagesOutput, error) {
	return withTimeout(ctx, s.Client, "ec2:DescribeImages",
		func(ctx context.Context) (*ec2.DescribeImagesOutput, error) { return s.ec2.DescribeImages(ctx, in) })
}

func (s selectors) DescribeSubnets(ctx context.Context, in *ec2.DescribeSubnetsInput) (*ec2.DescribeSubnetsOutput, error) {
	return withTimeout(ctx, s.Client, "ec2:DescribeSubnets",
		func(ctx context.Context) (*ec2.DescribeSubnetsOutput, error) { return s.ec2.DescribeSubnets(ctx, in) })
}

func (s selectors) DescribeSecurityGroups(
	ctx context.Context, in *ec2.DescribeSecurityGroupsInput,
) (*ec2.DescribeSecurityGroupsOutput, error) {
	return withTimeout(ctx, s.Client, "ec2:DescribeSecurityGroups", func(ctx context.Context) (*ec2.DescribeSecurityGroupsOutput, error) {
		return s.ec2.DescribeSecurityGroups(ctx, in)
	})
}

func (s selectors) DescribeCapacityReservations(
	ctx context.Context, in *ec2.DescribeCapacityReservationsInput,
) (*ec2.DescribeCapacityReservationsOutput, error) {
	return withTimeout(ctx, s.Client, "ec2:DescribeCapacityReservations", func(ctx context.Context) (*ec2.DescribeCapacityReservationsOutput, error) {
		return s.ec2.DescribeCapacityReservations(ctx, in)
	})
}

func (s selectors) GetParameter(ctx context.Context, in *ssm.GetParameterInput) (*ssm.GetParameterOutput, error) {
	return withTimeout(ctx, s.Client, "ssm:GetParameter",
		func(ctx context.Context) (*ssm.GetParameterOutput, error) { return s.ssm.GetParameter(ctx, in) })
}

// withTimeout makes a call within the timeout of one query, and gives an error its type.
func withTimeout[Out any](ctx context.Context, c *Client, action string, call func(context.Context) (*Out, error)) (*Out, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	out, err := call(ctx)
	if err != nil {
		return nil, c.named(action, err)
	}
	return out, nil
}

// Catalog returns what EC2 offers in the region: instance types, and the zones of each. It takes about 20 requests, and
// at most as long as three queries.
func (c *Client) Catalog(ctx context.Context) (*offers.Catalog, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*c.timeout)
	defer cancel()
	found, err := offers.Read(ctx, c.ec2, c.region)
	var call *offers.CallError
	if errors.As(err, &call) {
		return nil, c.named(call.Action, call.Err)
	}
	return found, err
}
