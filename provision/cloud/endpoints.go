package cloud

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// Endpoint is a VPC endpoint of an AWS service.
type Endpoint struct {
	ID, VPC string
	// Service is its name, such as com.amazonaws.eu-west-1.ecr.api.
	Service string
	// Gateway reports whether routes lead to it: those of RouteTables, by ID. Otherwise PrivateDNS reports whether the
	// service's own name leads to it, in the whole VPC.
	Gateway     bool
	RouteTables []string
	PrivateDNS  bool
	// Groups are the IDs of the security groups of its interfaces; none of a gateway.
	Groups []string
	// Available reports whether it can be used.
	Available bool
}

// Endpoints returns those of VPCs. It takes one request for each 1000 of them.
func (c *Client) Endpoints(ctx context.Context, vpcs []string) ([]Endpoint, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var found []Endpoint
	pages := ec2.NewDescribeVpcEndpointsPaginator(c.ec2, &ec2.DescribeVpcEndpointsInput{
		Filters: []ec2types.Filter{filter("vpc-id", vpcs...)}, MaxResults: aws.Int32(pageSize),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, c.named("ec2:DescribeVpcEndpoints", err)
		}
		for i := range page.VpcEndpoints {
			e := &page.VpcEndpoints[i]
			var groups []string
			for _, group := range e.Groups {
				groups = append(groups, aws.ToString(group.GroupId))
			}
			found = append(found, Endpoint{
				Groups: groups, ID: aws.ToString(e.VpcEndpointId), VPC: aws.ToString(e.VpcId), Service: aws.ToString(e.ServiceName),
				Gateway: e.VpcEndpointType == ec2types.VpcEndpointTypeGateway, RouteTables: e.RouteTableIds,
				PrivateDNS: aws.ToBool(e.PrivateDnsEnabled), Available: strings.EqualFold(string(e.State), string(ec2types.StateAvailable)),
			})
		}
	}
	return found, nil
}
