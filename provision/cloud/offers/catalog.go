package offers

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// Catalog is EC2's response about a region.
type Catalog struct {
	Region string `json:"region"`
	// Types are the instance types that Karpenter requests.
	Types []ec2types.InstanceTypeInfo `json:"types"`
	// Zones are those in which an instance type is offered, by its name.
	Zones map[string][]string `json:"zones"`
}

// CallError names the query that EC2 did not answer.
type CallError struct {
	Action string
	Err    error
}

func (e *CallError) Error() string { return e.Action + ": " + e.Err.Error() }

// Unwrap returns the SDK's error.
func (e *CallError) Unwrap() error { return e.Err }

// API is the EC2 client that reads a Catalog.
type API interface {
	ec2.DescribeInstanceTypesAPIClient
	ec2.DescribeInstanceTypeOfferingsAPIClient
}

// Read reads a region's Catalog from EC2, with Karpenter's queries (UpdateInstanceTypes and UpdateInstanceTypeOfferings
// in karpenter-provider-aws pkg/providers/instancetype, 1.14.1).
func Read(ctx context.Context, api API, region string) (*Catalog, error) {
	c := &Catalog{Region: region, Zones: map[string][]string{}}
	types := ec2.NewDescribeInstanceTypesPaginator(api, &ec2.DescribeInstanceTypesInput{
		Filters: []ec2types.Filter{
			{Name: aws.String("supported-virtualization-type"), Values: []string{"hvm"}},
			{Name: aws.String("processor-info.supported-architecture"), Values: []string{"x86_64", "arm64"}},
		},
		MaxResults: aws.Int32(100),
	})
	for types.HasMorePages() {
		page, err := types.NextPage(ctx)
		if err != nil {
			return nil, &CallError{"ec2:DescribeInstanceTypes", err}
		}
		c.Types = append(c.Types, page.InstanceTypes...)
	}
	zones := ec2.NewDescribeInstanceTypeOfferingsPaginator(api, &ec2.DescribeInstanceTypeOfferingsInput{
		LocationType: ec2types.LocationTypeAvailabilityZone, MaxResults: aws.Int32(1000),
	})
	for zones.HasMorePages() {
		page, err := zones.NextPage(ctx)
		if err != nil {
			return nil, &CallError{"ec2:DescribeInstanceTypeOfferings", err}
		}
		for _, offered := range page.InstanceTypeOfferings {
			name := string(offered.InstanceType)
			c.Zones[name] = append(c.Zones[name], aws.ToString(offered.Location))
		}
	}
	return c, c.check()
}

// check returns an error if a Catalog is incomplete: the provider's code reads these fields of each type without a nil
// check.
func (c *Catalog) check() error {
	if c.Region == "" || len(c.Types) == 0 || len(c.Zones) == 0 {
		return fmt.Errorf("the instance types of region %q: %d types in %d zones' lists", c.Region, len(c.Types), len(c.Zones))
	}
	broken := slices.IndexFunc(c.Types, func(t ec2types.InstanceTypeInfo) bool { return !whole(&t) })
	if broken >= 0 {
		return fmt.Errorf("the instance types of region %q: %q lacks its vCPUs, memory, processor or network",
			c.Region, c.Types[broken].InstanceType)
	}
	return nil
}

func whole(t *ec2types.InstanceTypeInfo) bool {
	n := t.NetworkInfo
	return t.InstanceType != "" && t.VCpuInfo != nil && t.VCpuInfo.DefaultVCpus != nil && t.MemoryInfo != nil &&
		t.MemoryInfo.SizeInMiB != nil &&
		t.ProcessorInfo != nil && n != nil && n.MaximumNetworkInterfaces != nil && n.Ipv4AddressesPerInterface != nil &&
		n.DefaultNetworkCardIndex != nil && int(*n.DefaultNetworkCardIndex) < len(n.NetworkCards) && *n.DefaultNetworkCardIndex >= 0
}
