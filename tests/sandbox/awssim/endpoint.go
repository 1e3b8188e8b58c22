package awssim

import (
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/service/ec2"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// endpoints are the services that have an endpoint in each VPC: those of a private cluster of eksctl, and what EKS Pod
// Identity needs.
var endpoints = []string{"ec2", "ecr.api", "ecr.dkr", "eks", "eks-auth", "s3", "sqs", "ssm", "sts"}

// describeVPCEndpoints returns the endpoints of VPCs. EC2's filters other than vpc-id, and its pages, are not supported.
func (a *account) describeVPCEndpoints(_ *request, in *ec2.DescribeVpcEndpointsInput) (*ec2.DescribeVpcEndpointsOutput, error) {
	out := &ec2.DescribeVpcEndpointsOutput{VpcEndpoints: []*ec2.VpcEndpoint{}}
	for _, id := range slices.Sorted(maps.Keys(a.vpcs)) {
		selected := !a.vpcs[id].noEndpoints
		for _, filter := range in.Filters {
			if aws.StringValue(filter.Name) != "vpc-id" {
				return nil, wire.Errorf("InvalidFilter", "The filter '%s' is invalid", aws.StringValue(filter.Name))
			}
			selected = selected && slices.Contains(aws.StringValueSlice(filter.Values), id)
		}
		if !selected {
			continue
		}
		for _, service := range endpoints {
			e := &ec2.VpcEndpoint{
				VpcEndpointId: aws.String(fixedID("vpce-", id+service)), VpcId: aws.String(id), OwnerId: aws.String(a.options.Account),
				ServiceName: aws.String("com.amazonaws." + a.options.Region + "." + service), State: aws.String("available"),
				VpcEndpointType: aws.String("Interface"), PrivateDnsEnabled: aws.Bool(true),
			}
			for _, group := range slices.Sorted(maps.Keys(a.groups)) {
				if a.groups[group].vpcID == id && a.groups[group].name != "default" && service != "s3" {
					e.Groups = []*ec2.SecurityGroupIdentifier{{GroupId: aws.String(group), GroupName: aws.String(a.groups[group].name)}}
				}
			}
			if service == "s3" {
				e.VpcEndpointType, e.PrivateDnsEnabled = aws.String("Gateway"), aws.Bool(false)
				e.RouteTableIds = aws.StringSlice([]string{fixedID("rtb-", id)})
			}
			out.VpcEndpoints = append(out.VpcEndpoints, e)
		}
	}
	return out, nil
}

// SetRoute removes the default route of a cluster's VPC, or restores it.
func (s *Simulator) SetRoute(clusterName string, exists bool) error {
	return s.changeVPC(clusterName, func(v *vpc) { v.isolated = !exists })
}

// SetEndpoints removes the endpoints of a cluster's VPC, or restores them.
func (s *Simulator) SetEndpoints(clusterName string, exist bool) error {
	return s.changeVPC(clusterName, func(v *vpc) { v.noEndpoints = !exist })
}

func (s *Simulator) changeVPC(clusterName string, change func(*vpc)) error {
	var err error
	s.locked(func(a *account) {
		c, ok := a.clusters[clusterName]
		if !ok {
			err = fmt.Errorf("changing the VPC of cluster %s: there is no cluster of that name", clusterName)
			return
		}
		change(a.vpcs[c.vpcID])
	})
	return err
}
