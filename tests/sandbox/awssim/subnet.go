package awssim

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/service/ec2"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

type subnet struct {
	resource
	vpcID string
	zone  string
	cidr  netip.Prefix
	used  map[netip.Addr]bool
	next  uint32 // offset at which the search for a free address continues
}

// reservedAddresses is the number of AWS's own in every subnet: the first four and the last.
const reservedAddresses = 5

func (s *subnet) size() int { return 1 << (32 - s.cidr.Bits()) }

// free returns how many addresses are available.
func (s *subnet) free() int { return s.size() - reservedAddresses - len(s.used) }

// take assigns an address; the caller has checked that one is free. A released address is the last to be assigned
// again.
func (s *subnet) take() string {
	base := binary.BigEndian.Uint32(s.cidr.Addr().AsSlice())
	for {
		offset := 4 + s.next%uint32(s.size()-reservedAddresses)
		s.next++
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], base+offset)
		if ip := netip.AddrFrom4(b); !s.used[ip] {
			s.used[ip] = true
			return ip.String()
		}
	}
}

func (s *subnet) giveBack(ip string) {
	if addr, err := netip.ParseAddr(ip); err == nil {
		delete(s.used, addr)
	}
}

// privateDNSName returns the name of an instance with that address, in the scheme ip-name.
func (a *account) privateDNSName(ip string) string {
	domain := a.options.Region + ".compute.internal"
	if a.options.Region == "us-east-1" {
		domain = "ec2.internal"
	}
	return fmt.Sprintf("ip-%s.%s", strings.ReplaceAll(ip, ".", "-"), domain)
}

// defaultSubnet returns the first subnet in zone that is in the same network as groups; empty if there is none.
func (a *account) defaultSubnet(zone string, groups []string) string {
	if zone == "" || len(groups) == 0 {
		return ""
	}
	var ids []string
	for _, s := range a.subnets {
		if g, ok := a.groups[groups[0]]; ok && s.zone == zone && s.vpcID == g.vpcID {
			ids = append(ids, s.ID)
		}
	}
	if len(ids) == 0 {
		return ""
	}
	return slices.Min(ids)
}

func (a *account) describeSubnets(r *request, in *ec2.DescribeSubnetsInput) (*ec2.DescribeSubnetsOutput, error) {
	selected, next, err := selectResources(a, r, a.subnets, listing[*subnet]{
		ids: in.SubnetIds, filters: in.Filters, limit: in.MaxResults, token: in.NextToken, missing: subnetNotFound,
		attributes: attributes[*subnet]{
			"subnet-id":            one(func(s *subnet) string { return s.ID }),
			"vpc-id":               one(func(s *subnet) string { return s.vpcID }),
			"availability-zone":    one(func(s *subnet) string { return s.zone }),
			"availability-zone-id": one(func(s *subnet) string { return a.zoneID(s.zone) }),
			"cidr-block":           one(func(s *subnet) string { return s.cidr.String() }),
			"state":                one(func(*subnet) string { return "available" }),
		},
	})
	if err != nil {
		return nil, err
	}
	out := &ec2.DescribeSubnetsOutput{NextToken: next, Subnets: []*ec2.Subnet{}}
	for _, s := range selected {
		out.Subnets = append(out.Subnets, &ec2.Subnet{
			SubnetId: aws.String(s.ID), VpcId: aws.String(s.vpcID), State: aws.String("available"),
			AvailabilityZone: aws.String(s.zone), AvailabilityZoneId: aws.String(a.zoneID(s.zone)),
			CidrBlock: aws.String(s.cidr.String()), AvailableIpAddressCount: aws.Int64(int64(s.free())),
			MapPublicIpOnLaunch: aws.Bool(false), DefaultForAz: aws.Bool(false), AssignIpv6AddressOnCreation: aws.Bool(false),
			OwnerId: aws.String(a.options.Account), SubnetArn: aws.String(a.arn("ec2", a.options.Region, "subnet/"+s.ID)),
			Tags: ec2Tags(s.Tags),
		})
	}
	return out, nil
}

func subnetNotFound(id string) error {
	return wire.Errorf("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", id)
}
