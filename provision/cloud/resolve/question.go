package resolve

import (
	"cmp"
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	sdk "github.com/aws/karpenter-provider-aws/pkg/aws"
	awserrors "github.com/aws/karpenter-provider-aws/pkg/errors"
	"github.com/aws/karpenter-provider-aws/pkg/providers/ssm"
)

// question is the client of Karpenter's providers for one resolution. It notes the first error of
// AWS: a provider passes over some of them, as where one of several parameters is not answered,
// and what it makes of the others is not what Karpenter will find.
type question struct {
	// EC2API is nil: of it Karpenter's lists call only what is below.
	sdk.EC2API
	*Resolver
	failed error
}

func (q *question) note(err error) {
	if err != nil && q.failed == nil && !awserrors.IsNotFound(err) {
		q.failed = err
	}
}

// DescribeImages is sdk.EC2API's.
func (q *question) DescribeImages(ctx context.Context, in *ec2.DescribeImagesInput, _ ...func(*ec2.Options)) (*ec2.DescribeImagesOutput, error) {
	in.Filters = sorted(in.Filters)
	out, err := ask(ctx, q.Resolver, "ec2:DescribeImages", in, q.api.DescribeImages, func(o *ec2.DescribeImagesOutput) bool { return len(o.Images) == 0 })
	q.note(err)
	return out, err
}

// DescribeSubnets is sdk.EC2API's.
func (q *question) DescribeSubnets(ctx context.Context, in *ec2.DescribeSubnetsInput, _ ...func(*ec2.Options)) (*ec2.DescribeSubnetsOutput, error) {
	in.Filters = sorted(in.Filters)
	out, err := ask(ctx, q.Resolver, "ec2:DescribeSubnets", in, q.api.DescribeSubnets, func(o *ec2.DescribeSubnetsOutput) bool { return len(o.Subnets) == 0 })
	q.note(err)
	return out, err
}

// DescribeSecurityGroups is sdk.EC2API's.
func (q *question) DescribeSecurityGroups(ctx context.Context, in *ec2.DescribeSecurityGroupsInput, _ ...func(*ec2.Options)) (*ec2.DescribeSecurityGroupsOutput, error) {
	in.Filters = sorted(in.Filters)
	out, err := ask(ctx, q.Resolver, "ec2:DescribeSecurityGroups", in, q.api.DescribeSecurityGroups, func(o *ec2.DescribeSecurityGroupsOutput) bool { return len(o.SecurityGroups) == 0 })
	q.note(err)
	return out, err
}

// DescribeCapacityReservations is sdk.EC2API's.
func (q *question) DescribeCapacityReservations(ctx context.Context, in *ec2.DescribeCapacityReservationsInput, _ ...func(*ec2.Options)) (*ec2.DescribeCapacityReservationsOutput, error) {
	in.Filters = sorted(in.Filters)
	out, err := ask(ctx, q.Resolver, "ec2:DescribeCapacityReservations", in, q.api.DescribeCapacityReservations, func(o *ec2.DescribeCapacityReservationsOutput) bool { return len(o.CapacityReservations) == 0 })
	q.note(err)
	return out, err
}

// Get reads a parameter of SSM, as ssm.Provider has it.
func (q *question) Get(ctx context.Context, of ssm.Parameter) (string, error) {
	out, err := ask(ctx, q.Resolver, "ssm:GetParameter", of.GetParameterInput(), q.api.GetParameter, func(o *awsssm.GetParameterOutput) bool { return o.Parameter == nil })
	q.note(err)
	if err != nil || out.Parameter == nil {
		return "", cmp.Or[error](err, errNoParameter)
	}
	return aws.ToString(out.Parameter.Value), nil
}

// sorted has filters in one order: Karpenter takes them out of maps.
func sorted(filters []ec2types.Filter) []ec2types.Filter {
	found := make([]ec2types.Filter, 0, len(filters))
	for _, f := range filters {
		found = append(found, ec2types.Filter{Name: f.Name, Values: slices.Sorted(slices.Values(f.Values))})
	}
	slices.SortStableFunc(found, func(a, b ec2types.Filter) int { return cmp.Compare(aws.ToString(a.Name), aws.ToString(b.Name)) })
	return found
}
