package awssim

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/service/ec2"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

type vpc struct {
	resource
	cidr netip.Prefix
	// isolated reports whether its route table has no default route, and noEndpoints whether it has no endpoints.
	isolated, noEndpoints bool
}

type securityGroup struct {
	resource
	vpcID, name string
}

func (a *account) networkActions() map[string]action {
	return map[string]action{
		"DescribeVpcs":              query(a, a.describeVpcs),
		"DescribeSubnets":           query(a, a.describeSubnets),
		"DescribeSecurityGroups":    query(a, a.describeSecurityGroups),
		"DescribeRouteTables":       query(a, a.describeRouteTables),
		"DescribeVpcEndpoints":      query(a, a.describeVPCEndpoints),
		"DescribeAvailabilityZones": query(a, a.describeAvailabilityZones),
	}
}

func (a *account) describeVpcs(r *request, in *ec2.DescribeVpcsInput) (*ec2.DescribeVpcsOutput, error) {
	selected, next, err := selectResources(a, r, a.vpcs, listing[*vpc]{
		ids: in.VpcIds, filters: in.Filters, limit: in.MaxResults, token: in.NextToken,
		missing: func(id string) error {
			return wire.Errorf("InvalidVpcID.NotFound", "The vpc ID '%s' does not exist", id)
		},
		attributes: attributes[*vpc]{
			"vpc-id": one(func(v *vpc) string { return v.ID }),
			"cidr":   one(func(v *vpc) string { return v.cidr.String() }),
			"state":  one(func(*vpc) string { return "available" }),
		},
	})
	if err != nil {
		return nil, err
	}
	out := &ec2.DescribeVpcsOutput{NextToken: next, Vpcs: []*ec2.Vpc{}}
	for _, v := range selected {
		out.Vpcs = append(out.Vpcs, &ec2.Vpc{
			VpcId: aws.String(v.ID), CidrBlock: aws.String(v.cidr.String()), State: aws.String("available"),
			OwnerId: aws.String(a.options.Account), IsDefault: aws.Bool(false), Tags: ec2Tags(v.Tags),
		})
	}
	return out, nil
}

func (a *account) describeSecurityGroups(r *request, in *ec2.DescribeSecurityGroupsInput) (*ec2.DescribeSecurityGroupsOutput, error) {
	selected, next, err := selectResources(a, r, a.groups, listing[*securityGroup]{
		ids: in.GroupIds, filters: in.Filters, limit: in.MaxResults, token: in.NextToken,
		missing: func(id string) error {
			return wire.Errorf("InvalidGroup.NotFound", "The security group '%s' does not exist", id)
		},
		attributes: attributes[*securityGroup]{
			"group-id":   one(func(g *securityGroup) string { return g.ID }),
			"group-name": one(func(g *securityGroup) string { return g.name }),
			"vpc-id":     one(func(g *securityGroup) string { return g.vpcID }),
		},
	})
	if err != nil {
		return nil, err
	}
	out := &ec2.DescribeSecurityGroupsOutput{NextToken: next, SecurityGroups: []*ec2.SecurityGroup{}}
	for _, g := range selected {
		out.SecurityGroups = append(out.SecurityGroups, &ec2.SecurityGroup{
			GroupId: aws.String(g.ID), GroupName: aws.String(g.name), VpcId: aws.String(g.vpcID),
			OwnerId: aws.String(a.options.Account), Description: aws.String(g.name), Tags: ec2Tags(g.Tags),
			// The rules of a new group, and of those that EKS creates: everything within the group, and to everywhere.
			IpPermissions: []*ec2.IpPermission{
				{IpProtocol: aws.String("-1"), UserIdGroupPairs: []*ec2.UserIdGroupPair{{GroupId: aws.String(g.ID), UserId: aws.String(a.options.Account)}}},
			},
			IpPermissionsEgress: []*ec2.IpPermission{{IpProtocol: aws.String("-1"), IpRanges: []*ec2.IpRange{{CidrIp: aws.String("0.0.0.0/0")}}}},
		})
	}
	return out, nil
}

// describeRouteTables returns the main table of each VPC, which leads to a NAT gateway unless the VPC is isolated. EC2's
// filters other than vpc-id, and its pages, are not supported.
func (a *account) describeRouteTables(_ *request, in *ec2.DescribeRouteTablesInput) (*ec2.DescribeRouteTablesOutput, error) {
	out := &ec2.DescribeRouteTablesOutput{RouteTables: []*ec2.RouteTable{}}
	for _, id := range slices.Sorted(maps.Keys(a.vpcs)) {
		selected := true
		for _, filter := range in.Filters {
			if aws.StringValue(filter.Name) != "vpc-id" {
				return nil, wire.Errorf("InvalidParameterValue", "The filter '%s' is invalid", aws.StringValue(filter.Name))
			}
			selected = selected && slices.Contains(aws.StringValueSlice(filter.Values), id)
		}
		if !selected {
			continue
		}
		routes := []*ec2.Route{{
			DestinationCidrBlock: aws.String(a.vpcs[id].cidr.String()), GatewayId: aws.String("local"), State: aws.String("active"),
		}}
		if !a.vpcs[id].isolated {
			routes = append(routes, &ec2.Route{
				DestinationCidrBlock: aws.String("0.0.0.0/0"), NatGatewayId: aws.String(fixedID("nat-", id)), State: aws.String("active"),
			})
		}
		out.RouteTables = append(out.RouteTables, &ec2.RouteTable{
			RouteTableId: aws.String(fixedID("rtb-", id)), VpcId: aws.String(id), OwnerId: aws.String(a.options.Account),
			Associations: []*ec2.RouteTableAssociation{{Main: aws.Bool(true), RouteTableId: aws.String(fixedID("rtb-", id))}},
			Routes:       routes,
		})
	}
	return out, nil
}

// SecurityGroup returns the ID of a security group in the VPC of a cluster, by its name.
func (s *Simulator) SecurityGroup(cluster, name string) (id string, err error) {
	s.locked(func(a *account) {
		for _, g := range a.groups {
			if c := a.clusters[cluster]; c != nil && g.vpcID == c.vpcID && g.name == name {
				id = g.ID
			}
		}
	})
	if id == "" {
		return "", fmt.Errorf("the VPC of cluster %s has no security group %s", cluster, name)
	}
	return id, nil
}

func (a *account) describeAvailabilityZones(*request, *ec2.DescribeAvailabilityZonesInput) (*ec2.DescribeAvailabilityZonesOutput, error) {
	out := &ec2.DescribeAvailabilityZonesOutput{AvailabilityZones: []*ec2.AvailabilityZone{}}
	for _, zone := range a.options.Zones {
		out.AvailabilityZones = append(out.AvailabilityZones, &ec2.AvailabilityZone{
			ZoneName: aws.String(zone), ZoneId: aws.String(a.zoneID(zone)), ZoneType: aws.String("availability-zone"),
			RegionName: aws.String(a.options.Region), State: aws.String("available"), OptInStatus: aws.String("opt-in-not-required"),
		})
	}
	return out, nil
}

func (a *account) groupIdentifiers(ids []string) []*ec2.GroupIdentifier {
	var identifiers []*ec2.GroupIdentifier
	for _, id := range ids {
		if g, ok := a.groups[id]; ok {
			identifiers = append(identifiers, &ec2.GroupIdentifier{GroupId: aws.String(g.ID), GroupName: aws.String(g.name)})
		}
	}
	return identifiers
}
