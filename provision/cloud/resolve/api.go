package resolve

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
)

// API is what Karpenter's resolution asks of AWS. Its errors have types.
type API interface {
	DescribeImages(context.Context, *ec2.DescribeImagesInput) (*ec2.DescribeImagesOutput, error)
	DescribeSubnets(context.Context, *ec2.DescribeSubnetsInput) (*ec2.DescribeSubnetsOutput, error)
	DescribeSecurityGroups(context.Context, *ec2.DescribeSecurityGroupsInput) (*ec2.DescribeSecurityGroupsOutput, error)
	DescribeCapacityReservations(context.Context, *ec2.DescribeCapacityReservationsInput) (*ec2.DescribeCapacityReservationsOutput, error)
	GetParameter(context.Context, *ssm.GetParameterInput) (*ssm.GetParameterOutput, error)
}

// Resolver asks one account in one region. It is shared by all that ask there.
type Resolver struct {
	api     API
	now     func() time.Time
	answers answers
	budget  Budget
}

// New makes a Resolver. It asks nothing.
func New(api API, now func() time.Time) *Resolver {
	return &Resolver{api: api, now: now}
}

// Budget is what all questions share that need not be asked.
func (r *Resolver) Budget() *Budget { return &r.budget }
