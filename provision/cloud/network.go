package cloud

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// Subnet is a subnet of a VPC.
type Subnet struct {
	ID, Zone, VPC, CIDR string
	// Free is how many addresses are free.
	Free int
	// PublicAddress reports whether instances get a public address unless their launch decides otherwise.
	PublicAddress bool
	Tags          map[string]string
	// DefaultRoute is the target of the route to 0.0.0.0/0 in its route table, such as nat-1 or igw-1; empty if there is none.
	// Blackhole reports whether that target no longer exists.
	DefaultRoute string
	Blackhole    bool
	// RouteTable is the ID of that table; empty if it was not read.
	RouteTable string
}

// SecurityGroup is a security group with its rules.
type SecurityGroup struct {
	ID, Name, VPC   string
	Tags            map[string]string
	Ingress, Egress []GroupRule
}

// GroupRule allows traffic from or to groups and networks. Ports from 0 to 65535 are all.
type GroupRule struct {
	// Protocol is tcp, another protocol, or -1 for all.
	Protocol string
	From, To int32
	Groups   []string
	CIDRs    []string
	// PrefixLists are networks that the rule does not list.
	PrefixLists []string
}

// Allows reports whether the rule is about TCP and a port.
func (r GroupRule) Allows(port int32) bool {
	return r.Protocol == "-1" || (r.Protocol == "tcp" || r.Protocol == "6") && r.From <= port && port <= r.To
}

// SubnetsByID returns subnets with their default routes, by ID. It takes two requests if each list has one page.
func (c *Client) SubnetsByID(ctx context.Context, ids []string) (map[string]Subnet, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	found := map[string]Subnet{}
	if len(ids) == 0 {
		return found, nil
	}
	all, err := c.subnets(ctx, &ec2.DescribeSubnetsInput{Filters: []ec2types.Filter{filter("subnet-id", ids...)}})
	if err != nil {
		return nil, err
	}
	var vpcs []string
	for _, s := range all {
		found[s.ID] = s
		vpcs = append(vpcs, s.VPC)
	}
	tables, err := c.routeTables(ctx, distinct(vpcs))
	for id, s := range found {
		s.RouteTable, s.DefaultRoute, s.Blackhole = defaultRoute(tables, s)
		found[id] = s
	}
	return found, err
}

// Network returns all subnets and security groups of the region, the subnets without their routes. It
// takes two requests if each list has one page. If there is an error, the result is incomplete.
func (c *Client) Network(ctx context.Context) ([]Subnet, []SecurityGroup, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	subnets, err := c.subnets(ctx, &ec2.DescribeSubnetsInput{})
	groups, groupsErr := c.groups(ctx, &ec2.DescribeSecurityGroupsInput{})
	return subnets, groups, errors.Join(err, groupsErr)
}

func (c *Client) subnets(ctx context.Context, in *ec2.DescribeSubnetsInput) ([]Subnet, error) {
	var all []Subnet
	pages := ec2.NewDescribeSubnetsPaginator(c.ec2, in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, c.named("ec2:DescribeSubnets", err)
		}
		for i := range page.Subnets {
			all = append(all, subnetOf(&page.Subnets[i]))
		}
	}
	return all, nil
}

func subnetOf(s *ec2types.Subnet) Subnet {
	return Subnet{
		ID: aws.ToString(s.SubnetId), Zone: aws.ToString(s.AvailabilityZone), VPC: aws.ToString(s.VpcId), CIDR: aws.ToString(s.CidrBlock),
		Free: int(aws.ToInt32(s.AvailableIpAddressCount)), PublicAddress: aws.ToBool(s.MapPublicIpOnLaunch), Tags: tagsOf(s.Tags),
	}
}

func (c *Client) routeTables(ctx context.Context, vpcs []string) ([]ec2types.RouteTable, error) {
	if len(vpcs) == 0 {
		return nil, nil
	}
	var tables []ec2types.RouteTable
	pages := ec2.NewDescribeRouteTablesPaginator(c.ec2, &ec2.DescribeRouteTablesInput{Filters: []ec2types.Filter{filter("vpc-id", vpcs...)}})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, c.named("ec2:DescribeRouteTables", err)
		}
		tables = append(tables, page.RouteTables...)
	}
	return tables, nil
}

// defaultRoute returns the route table of a subnet, and the target of its default route. The table is the one that is
// associated with the subnet, else the main one of its VPC (https://docs.aws.amazon.com/vpc/latest/userguide/RouteTables.html).
func defaultRoute(tables []ec2types.RouteTable, s Subnet) (table, target string, blackhole bool) {
	is := func(of func(ec2types.RouteTableAssociation) bool) func(ec2types.RouteTable) bool {
		return func(t ec2types.RouteTable) bool {
			return aws.ToString(t.VpcId) == s.VPC && slices.ContainsFunc(t.Associations, of)
		}
	}
	at := slices.IndexFunc(tables, is(func(a ec2types.RouteTableAssociation) bool { return aws.ToString(a.SubnetId) == s.ID }))
	if at < 0 {
		at = slices.IndexFunc(tables, is(func(a ec2types.RouteTableAssociation) bool { return aws.ToBool(a.Main) }))
	}
	if at < 0 {
		return "", "", false
	}
	table = aws.ToString(tables[at].RouteTableId)
	for _, route := range tables[at].Routes {
		if aws.ToString(route.DestinationCidrBlock) == "0.0.0.0/0" || aws.ToString(route.DestinationIpv6CidrBlock) == "::/0" {
			return table, targetOf(route), route.State == ec2types.RouteStateBlackhole
		}
	}
	return table, "", false
}

func targetOf(r ec2types.Route) string {
	for _, target := range []*string{
		r.NatGatewayId, r.GatewayId, r.TransitGatewayId, r.NetworkInterfaceId, r.VpcPeeringConnectionId, r.LocalGatewayId, r.CarrierGatewayId,
		r.EgressOnlyInternetGatewayId, r.InstanceId, r.CoreNetworkArn,
	} {
		if aws.ToString(target) != "" {
			return *target
		}
	}
	return "another target"
}

// SecurityGroupsByID returns security groups with their rules, by ID. It takes one request if the list has one page.
func (c *Client) SecurityGroupsByID(ctx context.Context, ids []string) (map[string]SecurityGroup, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	found := map[string]SecurityGroup{}
	if len(ids) == 0 {
		return found, nil
	}
	all, err := c.groups(ctx, &ec2.DescribeSecurityGroupsInput{Filters: []ec2types.Filter{filter("group-id", ids...)}})
	if err != nil {
		return nil, err
	}
	for _, g := range all {
		found[g.ID] = g
	}
	return found, nil
}

func (c *Client) groups(ctx context.Context, in *ec2.DescribeSecurityGroupsInput) ([]SecurityGroup, error) {
	var all []SecurityGroup
	pages := ec2.NewDescribeSecurityGroupsPaginator(c.ec2, in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, c.named("ec2:DescribeSecurityGroups", err)
		}
		for _, g := range page.SecurityGroups {
			all = append(all, SecurityGroup{
				ID: aws.ToString(g.GroupId), Name: aws.ToString(g.GroupName), VPC: aws.ToString(g.VpcId), Tags: tagsOf(g.Tags),
				Ingress: groupRules(g.IpPermissions), Egress: groupRules(g.IpPermissionsEgress),
			})
		}
	}
	return all, nil
}

func groupRules(permissions []ec2types.IpPermission) []GroupRule {
	var rules []GroupRule
	for _, p := range permissions {
		r := GroupRule{Protocol: aws.ToString(p.IpProtocol), From: aws.ToInt32(p.FromPort), To: aws.ToInt32(p.ToPort)}
		for _, pair := range p.UserIdGroupPairs {
			r.Groups = append(r.Groups, aws.ToString(pair.GroupId))
		}
		for _, network := range p.IpRanges {
			r.CIDRs = append(r.CIDRs, aws.ToString(network.CidrIp))
		}
		for _, network := range p.Ipv6Ranges {
			r.CIDRs = append(r.CIDRs, aws.ToString(network.CidrIpv6))
		}
		for _, list := range p.PrefixListIds {
			r.PrefixLists = append(r.PrefixLists, aws.ToString(list.PrefixListId))
		}
		rules = append(rules, r)
	}
	return rules
}

// OwnedBy returns the cluster that owns a resource by its tags, if that is not the given one; empty otherwise. A resource that
// several clusters share belongs to none of them.
func OwnedBy(tags map[string]string, cluster string) string {
	for key, value := range tags {
		name, isCluster := strings.CutPrefix(key, clusterTagPrefix)
		switch {
		case isCluster && value == clusterTagValue && name != cluster:
			return name
		case key == "aws:eks:cluster-name" && value != cluster:
			return value
		}
	}
	return ""
}
