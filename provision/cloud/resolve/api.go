package resolve

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
)

// API is what Karpenter's resolution queries in AWS. Its errors are typed.
type API interface {
	DescribeImages(context.Context, *ec2.DescribeImagesInput) (*ec2.DescribeImagesOutput, error)
	DescribeSubnets(context.Context, *ec2.DescribeSubnetsInput) (*ec2.DescribeSubnetsOutput, error)
	DescribeSecurityGroups(context.Context, *ec2.DescribeSecurityGroupsInput) (*ec2.DescribeSecurityGroupsOutput, error)
	DescribeCapacityReservations(context.Context, *ec2.DescribeCapacityReservationsInput) (*ec2.DescribeCapacityReservationsOutput, error)
	GetParameter(context.Context, *ssm.GetParameterInput) (*ssm.GetParameterOutput, error)
}

// Resolver queries one account in one region. All callers for these share it.
type Resolver struct {
	api     API
	now     func() time.Time
	answers answers
	budget  Budget
}

// New returns a Resolver. It makes no request.
func New(api API, now func() time.Time) *Resolver {
	return &Resolver{api: api, now: now}
}

// Budget returns the budget that all optional queries share.
func (r *Resolver) Budget() *Budget { return &r.budget }
